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
from memdecay.data.formats.span_words import note_around_spans, note_span_words
from memdecay.data.formats.spans import RESOURCE_LISTS, TelemetrySpan, spans_of
from memdecay.data.formats.values import as_list, as_map, as_str, maps, unpack_json
from memdecay.data.trace import Message

_SYSTEM = ("gen_ai.system_instructions", "gen_ai.system.instructions")
_INPUT = ("gen_ai.input.messages", "gen_ai.prompt", "pydantic_ai.all_messages")
_OUTPUT = ("gen_ai.output.messages", "gen_ai.completion")
_TOOLS = ("gen_ai.tool.definitions", "llm.request.functions")
# Events that hold the exchange as spans usually do.
_HOLDERS = (
    "gen_ai.client.inference.operation.details",
    *("gen_ai.content.prompt", "gen_ai.content.completion"),
)
_EVENT_LISTS = ("events", "all_messages_events")
_EVENT_ROLES = {"gen_ai.system.message": "system", "gen_ai.user.message": "user"}
_EVENT_ROLES |= {"gen_ai.assistant.message": "assistant", "gen_ai.tool.message": "tool"}
_EVENT_ROLES |= {"gen_ai.choice": "assistant"}
_READ = (*_SYSTEM, *_INPUT, *_OUTPUT, *_TOOLS, *_EVENT_LISTS, *_HOLDERS, *_EVENT_ROLES)


def score(sample: Sample) -> int:
    """Tell spans with GenAI attributes or events."""
    for record in sample.records():
        for span in spans_of(record):
            names = [*span.attributes, *(name for name, _ in span.events)]
            if any(name.startswith("gen_ai.") for name in names):
                return CERTAIN
    return NO


def _read(record: Mapping[str, Any], notes: Notes, where: str) -> Iterator[Draft]:
    note_around_spans(record, notes)
    for span in spans_of(record):
        attributes = _all_attributes(span)
        messages = _attribute_messages(attributes, notes, where)
        of_events = _event_messages(span, notes, where)
        known = {message.content for message in messages}
        # The same words as attributes and as events are usual: a telemetry of two conventions.
        notes.skip(
            "message event beside message attributes",
            sum(message.content not in known for message in of_events) if messages else 0,
            where,
        )
        messages = messages or of_events
        if messages:
            tools = unpack_json(_first(attributes, _TOOLS))
            note_span_words(span, _READ, messages, notes)
            meta = {"span": span.name, "model": span.attributes.get("gen_ai.request.model")}
            yield Draft(
                messages, {"task_id": span.trace_id, "tools": tools, "meta": meta}, where=where
            )
        else:
            notes.skip("span without messages", where=where)


def _all_attributes(span: TelemetrySpan) -> Mapping[str, Any]:
    """Return the span's attributes with those of its events that hold the exchange."""
    held = (pair for name, pairs in span.events if name in _HOLDERS for pair in pairs.items())
    return {**dict(held), **span.attributes}


def _attribute_messages(attributes: Mapping[str, Any], notes: Notes, where: str) -> list[Message]:
    system = next((unpack_json(attributes[key]) for key in _SYSTEM if attributes.get(key)), None)
    before = _first(attributes, _INPUT)
    after = _first(attributes, _OUTPUT)
    messages = prompt_messages(before, notes, where)
    replies = reply_messages(after, notes, where)
    if replies[: len(messages)] != messages or not messages:
        replies = messages + replies
    text = _system_text(system, notes)
    if text and replies and not any(m.role == "system" and text in m.content for m in replies):
        replies.insert(0, Message("system", text))
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
