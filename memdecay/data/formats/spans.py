"""Spans of OpenTelemetry, out of OTLP's wrapper or one by one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from memdecay.data.formats.flat import attributes_of
from memdecay.data.formats.values import first_str, maps

RESOURCE_LISTS = ("resourceSpans", "resource_spans")
SCOPE_LISTS = ("scopeSpans", "scope_spans")


@dataclass(frozen=True, slots=True)
class TelemetrySpan:
    """A span's attributes and events, with the id of its trace."""

    attributes: Mapping[str, Any]
    events: tuple[tuple[str, Mapping[str, Any]], ...]
    trace_id: str
    name: str


def spans_of(record: Mapping[str, Any]) -> Iterator[TelemetrySpan]:
    """Yield the spans in an OTLP body, a ``spans`` list or a single span."""
    for resource in maps(record.get("resourceSpans") or record.get("resource_spans")):
        key = next((key for key in SCOPE_LISTS if key in resource), "")
        for scope in maps(resource.get(key)):
            yield from (_span(raw) for raw in maps(scope.get("spans")))
    yield from (_span(raw) for raw in maps(record.get("spans")))
    if "attributes" in record or "traceId" in record:
        yield _span(record)
    elif any(key.startswith(("gen_ai.", "llm.")) for key in record):
        yield _span({"attributes": dict(record)})


def _span(raw: Mapping[str, Any]) -> TelemetrySpan:
    events = []
    for event in maps(raw.get("events")):
        attributes = attributes_of(event.get("attributes")) or attributes_of(event)
        events.append((first_str(event, ("name", "event.name")), attributes))
    context = raw.get("context")
    trace_id = first_str(raw, ("traceId", "trace_id"))
    if not trace_id and isinstance(context, Mapping):
        trace_id = first_str(context, ("trace_id", "traceId"))
    attributes = attributes_of(raw.get("attributes"))
    return TelemetrySpan(attributes, tuple(events), trace_id, first_str(raw, ("name",)))
