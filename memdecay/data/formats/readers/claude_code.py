"""Claude Code sessions: one record a line, branches by ``parentUuid``, sub-agents aside."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from memdecay.data.formats.base import CERTAIN, NO, Draft, Format
from memdecay.data.formats.chat import read_messages
from memdecay.data.formats.leftovers import note_leftovers
from memdecay.data.formats.report import Notes
from memdecay.data.formats.sample import Sample
from memdecay.data.formats.source import Record, Source
from memdecay.data.formats.values import as_map, as_str, first_str
from memdecay.data.trace import Message

# Where and by whom the record was written.
_READ = {"message", "cwd", "version", "gitBranch", "userType", "requestId", "slug", "agentId"}
_READ |= {"promptId", "permissionMode", "entrypoint", "sourceToolAssistantUUID"}
_READ |= {"sourceToolUseID", "logicalParentUuid", "thinkingMetadata"}
_TURNS = ("user", "assistant")


@dataclass(slots=True)
class _Entry:
    """A record's messages and its links."""

    uuid: str
    parent: str
    is_prompt: bool
    messages: list[Message]


@dataclass(slots=True)
class _Session:
    """One thread of records, cut back where the user went back to an earlier prompt."""

    facts: dict[str, Any]
    where: str
    entries: list[_Entry] = field(default_factory=list)
    seen: set[str] = field(default_factory=set)

    def draft(self) -> Draft:
        messages = [message for entry in self.entries for message in entry.messages]
        return Draft(_join_parts(messages), dict(self.facts), where=self.where)

    def fork(self, entry: _Entry) -> Draft | None:
        """Cut back to the parent if another prompt already follows it; return the old branch."""
        if not entry.is_prompt or not entry.parent:
            return None
        for index, old in enumerate(self.entries):
            if old.parent == entry.parent and old.is_prompt:
                draft = self.draft()
                del self.entries[index:]
                return draft
        return None


def score(sample: Sample) -> int:
    """Tell records of type user or assistant with a ``message`` and the session's fields."""
    fitting = [record for record in sample.records() if _is_turn(record)]
    marks = {"sessionId", "uuid", "parentUuid", "isSidechain", "session_id"}
    return CERTAIN if any(marks & set(record) for record in fitting) else NO


def read(source: Source) -> Iterator[Draft]:
    """Yield the session, one more trace for each abandoned branch and each sub-agent."""
    threads: dict[str, _Session] = {}
    for record in source.items():
        raw = record.value
        if not _is_turn(raw):
            _note_other(raw, source.notes, record.where)
            continue
        key = "sub-agent" if raw.get("isSidechain") is True else "main"
        session = threads.get(key)
        if session and _starts_anew(raw, session, key):
            yield threads.pop(key).draft()
            session = None
        if session is None:
            session = threads[key] = _Session(_facts(raw, key), record.where)
        yield from _take(record, session, source.notes)
    for session in threads.values():
        yield session.draft()


def _take(record: Record, session: _Session, notes: Notes) -> Iterator[Draft]:
    raw = record.value
    uuid = as_str(raw.get("uuid"))
    if uuid and uuid in session.seen:
        notes.notice("record whose uuid came before", where=record.where)
    session.seen.add(uuid)
    message = as_map(raw["message"])
    messages = read_messages([{"role": raw["type"], **message}], notes, record.where)
    said = [item.content for item in messages]
    note_leftovers(raw, _READ, notes, "record", said)
    message_id = as_str(message.get("id"))
    if message_id:
        messages = [_mark(item, message_id) for item in messages]
    is_prompt = raw["type"] == "user" and all(item.role == "user" for item in messages)
    entry = _Entry(uuid, as_str(raw.get("parentUuid")), is_prompt, messages)
    branch = session.fork(entry)
    if branch:
        notes.notice("abandoned branch of the session, a trace of its own", where=record.where)
        yield branch
    session.entries.append(entry)


def _starts_anew(raw: Mapping[str, Any], session: _Session, key: str) -> bool:
    """Tell a new session in the same file; resumed ones repeat the old session's records."""
    if "parentUuid" not in raw or raw["parentUuid"] is not None:
        return False
    return key == "sub-agent" or as_str(raw.get("sessionId")) != session.facts.get("task_id")


def _facts(raw: Mapping[str, Any], key: str) -> dict[str, Any]:
    meta = {name: raw[name] for name in ("cwd", "version", "gitBranch") if raw.get(name)}
    meta |= {"is_sub_agent": True} if key == "sub-agent" else {}
    task = first_str(raw, ("sessionId", "session_id"))
    return ({"task_id": task} if task else {}) | ({"meta": meta} if meta else {})


def _is_turn(raw: Mapping[str, Any]) -> bool:
    kind = raw.get("type")
    message = raw.get("message")
    return kind in _TURNS and isinstance(message, Mapping) and "content" in message


def _note_other(raw: Mapping[str, Any], notes: Notes, where: str) -> None:
    kind = as_str(raw.get("type")) or "unknown"
    what = "turn without a readable message" if kind in _TURNS else f"{kind[:40]} record"
    notes.skip(what, where=where)


def _mark(message: Message, message_id: str) -> Message:
    extra = (*message.extra, ("message_id", message_id))
    return Message(message.role, message.content, message.tool_calls, extra)


def _join_parts(messages: list[Message]) -> list[Message]:
    """Join the records of one reply, which the tool writes block by block."""
    joined: list[Message] = []
    for message in messages:
        message_id = dict(message.extra).get("message_id")
        last = joined[-1] if joined else None
        if last and message_id and dict(last.extra).get("message_id") == message_id:
            joined[-1] = _joined(last, message)
        else:
            joined.append(message)
    return [_unmark(message) for message in joined]


def _joined(first: Message, second: Message) -> Message:
    extra = dict(first.extra) | dict(second.extra)
    thoughts = [as_str(dict(part.extra).get("reasoning_content")) for part in (first, second)]
    if any(thoughts):
        extra["reasoning_content"] = "\n".join(thought for thought in thoughts if thought)
    texts = [part.content for part in (first, second) if part.content]
    calls = first.tool_calls + second.tool_calls
    return Message(first.role, "\n".join(texts), calls, tuple(extra.items()))


def _unmark(message: Message) -> Message:
    extra = tuple(pair for pair in message.extra if pair[0] != "message_id")
    return Message(message.role, message.content, message.tool_calls, extra)


FORMAT = Format("claude-code", "Claude Code session", score, read)
