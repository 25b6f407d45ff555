"""Words of telemetry spans that no reader reads, noted for the report."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from memdecay.data.formats.exchange import SETTINGS
from memdecay.data.formats.leftovers import note_leftovers
from memdecay.data.formats.report import Notes
from memdecay.data.formats.spans import RESOURCE_LISTS, SCOPE_LISTS, TelemetrySpan
from memdecay.data.formats.values import as_map, as_str, maps, unpack_json
from memdecay.data.trace import Message

# What telemetry says about where, when, by whom and with which settings.
_ABOUT = re.compile(
    r"(?:gen_ai\.(?:request|response|usage|token|agent|conversation|provider|operation|openai|data"
    r"_source|azure_ai_project|output\.type|prompt\.name|system|tool\.(?:name|type|call\.id))"
    r"|llm\.(?:model_name|provider|system|token_count|cost|usage|request\.type|is_streaming|headers"
    r"|invocation_parameters|response\.\w*reason|user|vendor|prompt_template\.version)"
    r"|(?:input|output)\.mime_type|openinference\.span|metadata|tag|tags|session|user|enduser"
    r"|traceloop\.(?:span|workflow|entity\.(?:name|path)|association|prompt\.(?:key|version))"
    r"|telemetry|service|server|client|network|net|peer|url|http|rpc|error|otel|process|thread|host"
    r"|os|container|k8s|cloud|faas|aws|az|gcp|deployment|code|user_agent|device|event|langfuse"
    r"|logfire|langsmith|library|scope|ls_\w+|agent_name|model_name|operation)(?:\.|$)"
)
_SPAN = {"name", "attributes", "events", "traceId", "trace_id", "spanId", "span_id", "context"}
_SPAN |= {"parentSpanId", "parent_span_id", "parent_id", "parentId", "traceState", "trace_state"}
_SPAN |= {"kind", "span_kind", "status", "status_code", "links", "flags", "resource", "scope"}
_SPAN |= {"instrumentationScope", "instrumentation_scope", "instrumentationLibrary"}
_SPAN |= {"startTimeUnixNano", "endTimeUnixNano", "start_time_unix_nano", "end_time_unix_nano"}
_SPAN |= {"startTime", "endTime", "end_time", "duration", "ended", "schemaUrl", "schema_url"}
_SPAN |= {"resource_attributes", "service_name", "statusCode", "spanKind", "spans"}
_AROUND = {*_SPAN, *RESOURCE_LISTS, *SCOPE_LISTS}


def note_span_words(
    span: TelemetrySpan,
    read: Collection[str],
    messages: Sequence[Message],
    notes: Notes,
) -> None:
    """Note attributes and events with words that are neither read nor copies nor metadata.

    Args:
        span: The span.
        read: Attributes and events that were read, numbered ones by their prefix.
        messages: What was read of them.
        notes: Takes the notes.
    """
    said = [text for message in messages for text in _said(message)]
    left: dict[str, list[Any]] = {}
    for name, value in span.attributes.items():
        if not _ABOUT.match(name) and not _is_read(name, read):
            plain = re.sub(r"\.\d+(?=\.|$)", ".*", name)
            left.setdefault(plain, []).append(_without_settings(unpack_json(value)))
    note_leftovers(left, (), notes, "span", said)
    for name, attributes in span.events:
        if name not in read:
            held = {key: unpack_json(value) for key, value in attributes.items() if key != "name"}
            note_leftovers({name: held}, (), notes, "span's events", said)


def note_around_spans(record: Mapping[str, Any], notes: Notes) -> None:
    """Note words that stand around the spans of a record, and beside a span's attributes."""
    for part in _holders(record):
        if "attributes" in part or not any("." in key for key in part):
            note_leftovers(part, _AROUND, notes, "span's record")


def _holders(record: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    yield record
    for key in (*RESOURCE_LISTS, *SCOPE_LISTS, "spans"):
        for part in maps(record.get(key)):
            yield from _holders(part)


def _is_read(name: str, read: Collection[str]) -> bool:
    return any(name == key or name.startswith(f"{key}.") for key in read)


def _without_settings(value: object) -> object:
    """Return a request or an answer without how it was made."""
    if not isinstance(value, dict):
        return value
    return {key: item for key, item in value.items() if key not in SETTINGS}


def _said(message: Message) -> Iterator[str]:
    yield message.content
    yield from (str(value) for _, value in message.extra)
    for call in message.tool_calls:
        function = as_map(call.get("function"))
        yield from (as_str(function.get("name")), as_str(function.get("arguments")))
