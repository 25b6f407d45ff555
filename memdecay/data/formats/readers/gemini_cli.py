"""Gemini CLI sessions: calls with their results inside the model's turn."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from memdecay.data.formats.base import CERTAIN, NO, Draft, Format, each_item
from memdecay.data.formats.blocks import split_blocks
from memdecay.data.formats.calls import read_call
from memdecay.data.formats.content import content_text
from memdecay.data.formats.leftovers import note_leftovers
from memdecay.data.formats.report import Notes
from memdecay.data.formats.sample import Sample
from memdecay.data.formats.tool_errors import with_error
from memdecay.data.formats.values import as_list, as_map, as_str, first_str, maps
from memdecay.data.trace import Message

_READ = ("type", "content", "toolCalls", "thoughts", "thought", "displayContent")
_SHOWN = ("result", "resultDisplay", "displayName", "description", "renderOutputAsMarkdown")
_ROLES = {"user": "user", "gemini": "assistant", "model": "assistant"}


def score(sample: Sample) -> int:
    """Tell a session with a project hash, or turns of type gemini."""
    for record in sample.records():
        kinds = {as_str(turn.get("type")) for turn in maps(record.get("messages"))}
        if "gemini" in kinds or ("projectHash" in record and "messages" in record):
            return CERTAIN
    return NO


def _read(record: Mapping[str, Any], notes: Notes, where: str) -> Iterator[Draft]:
    messages: list[Message] = []
    for turn in as_list(record.get("messages")):
        if isinstance(turn, Mapping):
            messages += _turn(turn, notes)
        else:
            notes.skip("message that is no object", where=where)
    task = first_str(record, ("sessionId",))
    meta = {key: record[key] for key in ("projectHash", "startTime", "summary") if record.get(key)}
    note_leftovers(record, ("messages", "lastUpdated", *meta), notes, "session")
    yield Draft(messages, {"task_id": task, "meta": meta})


def _turn(turn: Mapping[str, Any], notes: Notes) -> list[Message]:
    kind = as_str(turn.get("type"))
    parts = split_blocks(turn.get("content"), notes)
    listed = as_list(turn.get("toolCalls"))
    calls = [call for raw in listed if (call := read_call(_call(raw), notes)) is not None]
    thoughts = [text for text in (_thoughts(turn, notes), *parts.reasoning) if text]
    pairs = (("reasoning_content", "\n".join(thoughts)),) if thoughts else ()
    role = _ROLES.get(kind, kind or "user")
    message = Message(role, parts.text, (*parts.calls, *calls), pairs)
    results = [*parts.results, *(_result(raw, notes) for raw in maps(listed) if _has_result(raw))]
    note_leftovers(turn, _READ, notes, "turn", [parts.text])
    return [message, *results]


def _call(raw: object) -> object:
    """Return a call without its result and how the screen showed them."""
    call = as_map(raw)
    return {key: value for key, value in call.items() if key not in _SHOWN} if call else raw


def _thoughts(turn: Mapping[str, Any], notes: Notes) -> str:
    thoughts = maps(turn.get("thoughts"))
    lines = (
        ": ".join(text for key in ("subject", "description") if (text := as_str(thought.get(key))))
        for thought in thoughts
    )
    return "\n".join(line for line in lines if line) or content_text(turn.get("thought"), notes)


def _has_result(raw: Mapping[str, Any]) -> bool:
    return raw.get("result") is not None or bool(raw.get("resultDisplay"))


def _result(raw: Mapping[str, Any], notes: Notes) -> Message:
    result = raw.get("result")
    listed = as_list(result) or [result]
    texts = [_result_text(item, notes) for item in listed]
    text = "\n".join(text for text in texts if text)
    text = text or content_text(raw.get("resultDisplay"), notes)
    extra = {"tool_call_id": first_str(raw, ("id",)), "name": as_str(raw.get("name"))}
    return Message("tool", text, (), tuple((key, value) for key, value in extra.items() if value))


def _result_text(item: object, notes: Notes) -> str:
    """Return the text of a result, which is wrapped in Gemini's ``functionResponse``."""
    wrapped = as_map(as_map(item).get("functionResponse"))
    response = wrapped.get("response")
    if response is None:
        return content_text(item, notes)
    note_leftovers(wrapped, ("response", "name"), notes, "tool result")
    body = as_map(response)
    if not {"output", "error"} & set(body):
        return content_text(response, notes)
    note_leftovers(body, ("output", "error"), notes, "tool result")
    return with_error(content_text(body.get("output"), notes), body)


FORMAT = Format("gemini-cli", "Gemini CLI session", score, each_item(_read))
