"""Codex CLI rollouts: with an envelope around each item, or the bare items of older versions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from memdecay.data.formats.base import CERTAIN, LIKELY, NO, Draft, Format
from memdecay.data.formats.chat import read_messages
from memdecay.data.formats.exchange import system_messages
from memdecay.data.formats.leftovers import note_leftovers
from memdecay.data.formats.report import Notes
from memdecay.data.formats.sample import Sample
from memdecay.data.formats.source import Record, Source
from memdecay.data.formats.values import as_map, as_str, first_str

_SYSTEM_KEYS = ("base_instructions", "instructions")
_FACTS = ("cwd", "cli_version", "originator", "git")
_ABOUT = ("source", "model_provider", "forked_from_id")
_READ = ("payload",)
_ENVELOPES = {"session_meta", "response_item", "event_msg", "turn_context", "compacted"}
_OLD_ITEMS = {"message", "function_call", "function_call_output", "reasoning", "local_shell_call"}
_OLD_ITEMS |= {"custom_tool_call", "custom_tool_call_output", "web_search_call"}


def score(sample: Sample) -> int:
    """Tell envelopes with a payload, or an old file's head with its id and instructions."""
    records = sample.records()
    if any(as_str(record.get("type")) in _ENVELOPES and "payload" in record for record in records):
        return CERTAIN
    old_head = records and {"id", "timestamp"} <= set(records[0]) and "instructions" in records[0]
    if old_head and any(as_str(record.get("type")) in _OLD_ITEMS for record in records[1:]):
        return CERTAIN
    if any(record.get("record_type") == "state" for record in records):
        return LIKELY
    return NO


def read(source: Source) -> Iterator[Draft]:
    """Yield a conversation for each session head in the file."""
    draft: Draft | None = None
    items: list[Mapping[str, Any]] = []
    for record in source.items():
        head, item = _sort(record, source.notes)
        if head is not None:
            if draft is not None:
                yield _close(draft, items, source.notes)
            draft, items = _open(head, source.notes, record.where), []
        elif item is not None:
            draft = draft or Draft([], where=record.where)
            items.append(item)
    if draft is not None:
        yield _close(draft, items, source.notes)


def _sort(
    record: Record, notes: Notes
) -> tuple[Mapping[str, Any] | None, Mapping[str, Any] | None]:
    """Return the record as a session's head or as an item; neither (noted) for other records."""
    raw = record.value
    kind = as_str(raw.get("type"))
    if kind in _ENVELOPES - {"event_msg", "turn_context"}:
        note_leftovers(raw, _READ, notes, "record")
    if kind == "session_meta":
        return as_map(raw.get("payload")), None
    if kind == "response_item" and as_map(raw.get("payload")):
        return None, raw["payload"]
    if kind == "compacted" and as_str(as_map(raw.get("payload")).get("message")):
        if raw["payload"].get("replacement_history"):
            notes.skip("history as it was cut down to", where=record.where)
        note_leftovers(raw["payload"], ("message", "replacement_history"), notes, "compaction")
        return None, {"role": "user", "content": raw["payload"]["message"]}
    if kind == "event_msg":
        notes.skip("event that repeats an item", where=record.where)
        return None, None
    if kind in _OLD_ITEMS:
        return None, raw
    if not kind and "id" in raw and "timestamp" in raw:
        return raw, None
    notes.skip(
        f"{(kind or as_str(raw.get('record_type')) or 'unknown')[:40]} record", where=record.where
    )
    return None, None


def _open(head: Mapping[str, Any], notes: Notes, where: str) -> Draft:
    messages = system_messages(head, _SYSTEM_KEYS, notes)
    note_leftovers(head, (*_SYSTEM_KEYS, *_FACTS, *_ABOUT), notes, "session head")
    meta = {key: head[key] for key in _FACTS if head.get(key)}
    task = first_str(head, ("id",))
    extra = ({"task_id": task} if task else {}) | ({"meta": meta} if meta else {})
    return Draft(messages, extra, where=where)


def _close(draft: Draft, items: list[Mapping[str, Any]], notes: Notes) -> Draft:
    draft.messages += read_messages(items, notes, draft.where)
    return draft


FORMAT = Format("codex", "Codex CLI rollout", score, read)
