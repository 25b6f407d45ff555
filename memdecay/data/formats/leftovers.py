"""Fields of a message or a record that nobody reads, noted where they hold words."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from memdecay.data.formats.report import Notes
from memdecay.data.formats.values import MAX_DEPTH

# Names, ids, times, counts and states: nothing that was said.
_METADATA = frozenset(
    (
        *("id", "uuid", "parentUuid", "object", "type", "role", "index", "turn_idx", "turn"),
        *("timestamp", "time", "ts", "date", "created", "created_at", "createdAt", "start_time"),
        *("model", "model_name", "model_id", "model_version", "provider", "api", "service_tier"),
        *("system_fingerprint", "usage", "usage_metadata", "response_metadata", "cost", "tokens"),
        *("status", "state", "finish_reason", "finishReason", "stop_reason", "stopReason"),
        *("stop_sequence", "logprobs", "metadata", "_meta", "cache_control", "tags", "example"),
        *("signature", "thoughtSignature", "thought_signature", "encrypted_content", "responseId"),
        *("sessionId", "session_id", "message_type", "message_id", "valid", "weight", "lc"),
        *("mime_type", "mimeType", "media_type", "format", "language", "phase", "container"),
    )
)


def note_leftovers(
    raw: Mapping[str, Any],
    read: Collection[str],
    notes: Notes,
    what: str,
    texts: Collection[str] = (),
) -> None:
    """Note each field with words that is neither read nor metadata.

    Args:
        raw: The message, block or record.
        read: The fields that were read.
        notes: Takes the notes.
        what: What ``raw`` is, for the report.
        texts: What was read: a field of nothing but copies of it goes without a note.
    """
    for key, value in raw.items():
        if key in read or key in _METADATA or not isinstance(value, str | list | dict):
            continue
        if any(not _is_copy(text, texts) for text in _texts(value)):
            article = "an" if what[:1] in "aeiou" else "a"
            notes.skip(f"{key[:40]} of {article} {what}")


def has_leftovers(raw: Mapping[str, Any], read: Collection[str]) -> bool:
    """Tell whether a field with words is neither read nor metadata."""
    notes = Notes()
    note_leftovers(raw, read, notes, "")
    return bool(notes.skipped)


def _is_copy(text: str, texts: Collection[str]) -> bool:
    return any(text.strip() in known for known in texts)


def _texts(value: object, depth: int = 0) -> Iterator[str]:
    if isinstance(value, str):
        if value.strip():
            yield value
    elif depth < MAX_DEPTH and isinstance(value, list):
        for item in value:
            yield from _texts(item, depth + 1)
    elif depth < MAX_DEPTH and isinstance(value, dict):
        for key, item in value.items():
            if key not in _METADATA:
                yield from _texts(item, depth + 1)
