"""OpenTelemetry GenAI spans: message attributes, indexed prompts, or an event per message."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from memdecay.data.formats.base import CERTAIN, NO, Draft, Format, each_item
from memdecay.data.formats.chat import read_messages
from memdecay.data.formats.content import content_text
from memdecay.data.formats.exchange import prompt_messages, reply_messages
from memdecay.data.formats.flat import nested
from memdecay.data.formats.report import Notes
from memdecay.data.formats.sample import Sample
from memdecay.data.formats.spans import RESOURCE_LISTS, TelemetrySpan, spans_of
from memdecay.data.formats.values import as_list, as_map, as_str, maps, unpack_json
from memdecay.data.trace import Message

_SYSTEM = ("gen_ai.system_instructions", "gen_ai.system.instructions")
_INPUT = ("gen_ai.input.messages", "gen_ai.prompt", "pydantic_ai.all_messages")
_OUTPUT = ("gen_ai.output.messages", "gen_ai.completion")
_EVENT_LISTS = ("events", "all_messages_events")
_EVENT_ROLES = {"gen_ai.system.message": "system", "gen_ai.user.message": "user"}
_EVENT_ROLES |= {"gen_ai.assistant.message": "assistant", "gen_ai.tool.message": "tool"}
_EVENT_ROLES |= {"gen_ai.choice": "assistant"}


def score(sample: Sample) -> int:
    """Tell spans with GenAI attributes or events."""
    for record in sample.records():
        for span in spans_of(record):
            names = [*span.attributes, *(name for name, _ in span.events)]
            if any(name.startswith("gen_ai.") for name in names):
                return CERTAIN
    return NO


def _read(record: Mapping[str, Any], notes: Notes, where: str) -> Iterator[Draft]:
    for span in spans_of(record):
        messages = _attribute_messages(span.attributes, notes, where) or _event_messages(
            span, notes, where
        )
        if messages:
            tools = unpack_json(span.attributes.get("gen_ai.tool.definitions"))
            meta = {"span": span.name, "model": span.attributes.get("gen_ai.request.model")}
            yield Draft(
                messages, {"task_id": span.trace_id, "tools": tools, "meta": meta}, where=where
            )
        else:
            notes.skip("span without messages", where=where)


def _attribute_messages(attributes: Mapping[str, Any], notes: Notes, where: str) -> list[Message]:
    system = next((unpack_json(attributes[key]) for key in _SYSTEM if attributes.get(key)), None)
    before = _first(attributes, _INPUT)
    after = _first(attributes, _OUTPUT)
    messages = prompt_messages(before, notes, where)
    replies = reply_messages(after, notes, where)
    if replies[: len(messages)] != messages or not messages:
        replies = messages + replies
    if system and replies and replies[0].role != "system":
        replies.insert(0, Message("system", _system_text(system, notes)))
    return replies


def _system_text(system: object, notes: Notes) -> str:
    parts = [as_map(part).get("content", part) for part in as_list(system) or [system]]
    return content_text(parts, notes)


def _first(attributes: Mapping[str, Any], keys: tuple[str, ...]) -> Any:
    return next((found for key in keys if (found := nested(attributes, key))), None)


def _event_messages(span: TelemetrySpan, notes: Notes, where: str) -> list[Message]:
    events = list(span.events)
    for key in _EVENT_LISTS:
        listed = maps(unpack_json(span.attributes.get(key)))
        events += [(as_str(event.get("event.name")), event) for event in listed]
    raws = [_event_message(name, event) for name, event in events if name in _EVENT_ROLES]
    return read_messages(raws, notes, where)


def _event_message(name: str, event: Mapping[str, Any]) -> Mapping[str, Any]:
    message = as_map(unpack_json(event.get("message")))
    content = unpack_json(event.get("gen_ai.event.content"))
    body = message or as_map(content) or event
    body = as_map(body.get("message")) or body
    call_id = (
        {"tool_call_id": body["id"]} if name == "gen_ai.tool.message" and body.get("id") else {}
    )
    return {"role": _EVENT_ROLES[name], **call_id, **body}


FORMAT = Format(
    "otel-genai", "OpenTelemetry GenAI spans", score, each_item(_read, *RESOURCE_LISTS), merges=True
)
