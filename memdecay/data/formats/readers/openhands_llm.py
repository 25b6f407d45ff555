"""OpenHands' logs of model calls: the whole prompt each time, in a log object or a bare list."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from memdecay.data.formats.base import LIKELY, NO, Draft, Format, conversations_of, guarded
from memdecay.data.formats.chat import read_messages
from memdecay.data.formats.content import content_text
from memdecay.data.formats.exchange import exchange, is_message
from memdecay.data.formats.facts import run_facts
from memdecay.data.formats.leftovers import note_leftovers
from memdecay.data.formats.report import Notes
from memdecay.data.formats.sample import Sample
from memdecay.data.formats.source import Record, Source
from memdecay.data.formats.values import as_list, as_map

# What the model was told of its settings, and where the call went.
_READ_OF_KWARGS = {"tools", "tool_choice", "stop", "extra_body", "extra_headers", "user"}
_READ_OF_KWARGS |= {"reasoning_effort", "safety_settings", "response_format", "api_base"}


def score(sample: Sample) -> int:
    """Tell a request's messages beside its response, or OpenHands' system prompt."""
    for record in sample.records():
        if as_list(record.get("messages")) and as_map(record.get("response")):
            return LIKELY if {"kwargs", "args", "cost", "llm_path"} & set(record) else NO
        text = content_text(record.get("content"), Notes())
        if record.get("role") == "system" and text.startswith("You are OpenHands agent"):
            return LIKELY
    return NO


def read(source: Source) -> Iterator[Draft]:
    """Yield the conversation of each call, the response at its end."""
    for group in source.groups():
        parts = conversations_of(group, _is_turn, _is_log) if group.is_list else group.records
        for record in parts:
            yield from guarded(_call, record, source.notes)


def _call(record: Record, notes: Notes) -> Iterator[Draft]:
    log = record.value
    if _is_log(log):
        yield _logged(log, notes, record.where)
    else:
        yield Draft(read_messages(as_list(log) or [log], notes, record.where))


def _is_turn(value: object) -> bool:
    return isinstance(value, Mapping) and is_message(value)


def _is_log(value: object) -> bool:
    return isinstance(value, Mapping) and not is_message(value)


def _logged(log: Mapping[str, Any], notes: Notes, where: str) -> Draft:
    messages = exchange(log.get("messages"), log.get("response"), notes, where)
    kwargs = as_map(log.get("kwargs"))
    tools = kwargs.get("tools")
    said = [message.content for message in messages]
    note_leftovers(kwargs, _READ_OF_KWARGS, notes, "model call", said)
    note_leftovers({"args": log.get("args")}, (), notes, "model call", said)
    facts = run_facts(log, ("messages", "response", "kwargs", "args", "raw_response"))
    return Draft(messages, ({"tools": tools} if tools else {}) | facts)


FORMAT = Format("openhands-llm-log", "OpenHands model call log", score, read, merges=True)
