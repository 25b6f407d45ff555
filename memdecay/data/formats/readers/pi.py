"""Sessions of the pi coding agent: an event a line, messages and compactions among them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from memdecay.data.formats.base import CERTAIN, NO, Draft, Format
from memdecay.data.formats.chat import read_messages
from memdecay.data.formats.content import content_text
from memdecay.data.formats.leftovers import note_leftovers
from memdecay.data.formats.report import Notes
from memdecay.data.formats.sample import Sample
from memdecay.data.formats.source import Source
from memdecay.data.formats.values import as_map, as_str, first_str
from memdecay.data.trace import Message

_ROLES = {"user", "assistant", "toolResult", "bashExecution", "custom"}
_TEXT_KEYS = {"custom_message": "content", "compaction": "summary", "branch_summary": "summary"}
_FACTS = ("cwd", "provider", "modelId", "version")
# Links between records and sessions, how they are shown, and what they are called.
_READ = {"message", "content", "summary", "parentId", "firstKeptEntryId", "fromId", "customType"}
_READ |= {"parentSession", "branchedFrom", "thinkingLevel", *_FACTS}


def score(sample: Sample) -> int:
    """Tell ``message`` events with pi's roles."""
    for record in sample.records():
        if (
            record.get("type") == "message"
            and as_str(as_map(record.get("message")).get("role")) in _ROLES
        ):
            return CERTAIN if "payload" not in record else NO
    return NO


def read(source: Source) -> Iterator[Draft]:
    """Yield a conversation for each ``session`` event in the file."""
    draft: Draft | None = None
    for record in source.items():
        raw = record.value
        kind = as_str(raw.get("type"))
        if kind == "session":
            if draft is not None:
                yield draft
            draft = Draft([], _facts(raw), where=record.where)
            note_leftovers(raw, _READ, source.notes, "session head")
            continue
        draft = draft or Draft([], where=record.where)
        messages = _messages(raw, source.notes, record.where)
        draft.messages += messages
        if messages:
            said = [message.content for message in messages]
            note_leftovers(raw, _READ, source.notes, f"{kind} record", said)
        else:
            source.notes.skip(f"{kind[:40] or 'unknown'} record", where=record.where)
    if draft is not None:
        yield draft


def _messages(raw: Mapping[str, Any], notes: Notes, where: str) -> list[Message]:
    """Read the words of a record; none stand in records of unknown types."""
    kind = as_str(raw.get("type"))
    if kind == "message" and as_map(raw.get("message")):
        return read_messages([_spelled(raw["message"])], notes, where)
    if kind in _TEXT_KEYS and (given := raw.get(_TEXT_KEYS[kind])):
        name = "custom" if kind == "custom_message" else kind
        return [Message("user", content_text(given, notes), (), (("kind", name),))]
    return []


def _spelled(message: Mapping[str, Any]) -> Mapping[str, Any]:
    """Put a command that the user ran and its output into a user message."""
    if message.get("role") != "bashExecution":
        return message
    text = "\n".join(as_str(message.get(key)) for key in ("command", "output"))
    rest = {key: value for key, value in message.items() if key not in ("command", "output")}
    return {**rest, "role": "user", "content": text, "kind": "command"}


def _facts(raw: Mapping[str, Any]) -> dict[str, Any]:
    meta = {key: raw[key] for key in _FACTS if raw.get(key)}
    task = first_str(raw, ("id",))
    return ({"task_id": task} if task else {}) | ({"meta": meta} if meta else {})


FORMAT = Format("pi", "pi coding agent session", score, read)
