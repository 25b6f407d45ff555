"""OpenAI Responses: input items and the output items of a response."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from memdecay.data.formats.base import LIKELY, NO, Draft, Format, conversations_of, guarded
from memdecay.data.formats.chat import read_messages
from memdecay.data.formats.exchange import prompt_messages, reply_messages, system_messages
from memdecay.data.formats.facts import run_facts
from memdecay.data.formats.leftovers import note_leftovers
from memdecay.data.formats.report import Notes
from memdecay.data.formats.sample import Sample
from memdecay.data.formats.source import Record, Source
from memdecay.data.formats.values import as_list, as_map, as_str, first_str
from memdecay.data.trace import Message

_ITEM_TYPES = {"function_call", "function_call_output", "reasoning", "message", "item_reference"}
_ITEM_TYPES |= {"custom_tool_call", "custom_tool_call_output", "web_search_call", "computer_call"}
_CONVERSATION_KEYS = ("instructions", "input", "output", "items", "request", "response")

_READ = {"instructions", "input", "items", "output", "output_text", "error", "tools"}
# Settings of the model, and links to other answers.
_READ |= {"text", "reasoning", "truncation", "tool_choice", "include", "user", "conversation"}
_READ |= {"previous_response_id", "prompt_cache_key", "safety_identifier", "incomplete_details"}


def score(sample: Sample) -> int:
    """Tell item lists, requests with ``input`` and responses with ``output`` items."""
    return LIKELY if any(_fits(value) for value in sample.values) else NO


def read(source: Source) -> Iterator[Draft]:
    """Yield a conversation for each item list, request or response."""
    for group in source.groups():
        parts = conversations_of(group, _is_item, _fits) if group.is_list else group.records
        for record in parts:
            yield from guarded(_conversation, record, source.notes)


def _conversation(record: Record, notes: Notes) -> Iterator[Draft]:
    value = record.value
    if isinstance(value, list):
        yield Draft(read_messages(value, notes, record.where), where=record.where)
        return
    if not isinstance(value, Mapping):
        notes.skip("record that is no object", where=record.where)
        return
    messages = _request(as_map(value.get("request")) or value, notes, record.where)
    reply = as_map(value.get("response")) or value
    messages += reply_messages(as_list(reply.get("output")), notes, record.where)
    facts = run_facts(value, _CONVERSATION_KEYS)
    for part in (as_map(value.get("request")), reply):
        facts |= run_facts(part, [key for key in part if key != "tools"])
        if part is not value:
            said = [message.content for message in messages]
            note_leftovers(part, _READ, notes, "request or response", said)
    if reply is not value and reply.get("error"):
        facts["meta"] = {"error": reply["error"], **facts.get("meta", {})}
    yield Draft(messages, facts, id=first_str(value, ("id",)), where=record.where)


def _request(request: Mapping[str, Any], notes: Notes, where: str) -> list[Message]:
    instructions = request.get("instructions")
    if isinstance(instructions, list):
        messages = read_messages(instructions, notes, where)
    else:
        messages = system_messages(request, ("instructions",), notes)
    given = request.get("items") or request.get("input")
    return messages + prompt_messages(given, notes, where)


def _fits(value: object) -> bool:
    if isinstance(value, list):
        return any(_is_item(item) for item in value[:50]) or any(_fits(item) for item in value[:5])
    record = as_map(value)
    if "type" in record and "payload" in record:
        return False
    reply = as_map(record.get("response")) or record
    lists = (record.get("input"), record.get("items"), reply.get("output"))
    return any(_is_item(item) for listed in lists for item in as_list(listed)[:50])


def _is_item(value: object) -> bool:
    record = as_map(value)
    kind = as_str(record.get("type"))
    if kind == "message":
        return isinstance(record.get("content"), list) and "role" in record
    return kind in _ITEM_TYPES and "message" not in record and "value" not in record


FORMAT = Format("openai-responses", "OpenAI Responses items", score, read, merges=True)
