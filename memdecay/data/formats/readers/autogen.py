"""AutoGen sessions: recorded model calls, each with its whole prompt."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from memdecay.data.formats.base import CERTAIN, NO, Draft, Format, each_item
from memdecay.data.formats.chat import read_messages
from memdecay.data.formats.leftovers import note_leftovers
from memdecay.data.formats.report import Notes
from memdecay.data.formats.sample import Sample
from memdecay.data.formats.values import as_list, as_map, as_str, maps
from memdecay.data.trace import Message

_MESSAGE_KEYS = ("type", "content", "source", "thought")
_READ_OF_REPLIES = ("content", "thought", "cached")
_TYPES = {"SystemMessage", "UserMessage", "AssistantMessage", "FunctionExecutionResultMessage"}


def score(sample: Sample) -> int:
    """Tell records with AutoGen's message types."""
    for record in sample.records():
        if any(
            as_str(turn.get("type")) in _TYPES for turn in (record, *maps(record.get("messages")))
        ):
            return CERTAIN
    return NO


def _read(record: Mapping[str, Any], notes: Notes, where: str) -> Iterator[Draft]:
    raws = as_list(record.get("messages")) or (
        [record] if as_str(record.get("type")) in _TYPES else []
    )
    messages = [message for raw in raws for message in _turn(raw, notes, where)]
    reply = as_map(record.get("response"))
    if "content" in reply:
        thought, content = reply.get("thought"), reply["content"]
        turn = {"type": "AssistantMessage", "content": content, "thought": thought}
        messages += _turn(turn, notes, where)
        note_leftovers(reply, _READ_OF_REPLIES, notes, "reply")
    elif record.get("mode"):
        notes.notice("model call without a response", where=where)
    note_leftovers(record, ("messages", "response", "mode", *_MESSAGE_KEYS), notes, "model call")
    yield Draft(messages)


def _turn(raw: object, notes: Notes, where: str) -> list[Message]:
    """Read a message; calls and results stand in the content without a type of their own."""
    turn = as_map(raw)
    content = as_list(turn.get("content"))
    if turn.get("type") == "FunctionExecutionResultMessage" and content:
        results = ({"role": "tool", **result} if as_map(result) else result for result in content)
        return read_messages(results, notes, where)
    if content and all({"name", "arguments"} <= set(as_map(item)) for item in content):
        spelled = {"role": "assistant", "content": turn.get("thought"), "tool_calls": content}
        return read_messages([spelled], notes, where)
    name = as_str(turn.get("source"))
    spelled = {"role": turn.get("type"), **turn} | ({"name": name} if name else {})
    spelled["reasoning_content"] = spelled.pop("thought", None)
    return read_messages([spelled] if turn else [raw], notes, where)


def _is_turn(value: Mapping[str, Any]) -> bool:
    return as_str(value.get("type")) in _TYPES


FORMAT = Format(
    "autogen", "AutoGen session", score, each_item(_read), merges=True, is_one_task=True
)
