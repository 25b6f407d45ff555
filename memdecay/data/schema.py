"""Read a trace out of plain JSON data, and turn it back into such data."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

from memdecay.classifier.messages import content_text
from memdecay.classifier.regions import Region
from memdecay.data.trace import Message, Span, Trace

_TRACE_FIELDS = frozenset({"id", "source", "messages", "spans"})
_MESSAGE_FIELDS = frozenset({"role", "content", "tool_calls"})


class SchemaError(ValueError):
    """A piece of data does not fit; the text names the field, what was expected and what came."""


def parse_trace(data: object, default_id: str) -> Trace:
    """Read a trace from decoded JSON.

    Args:
        data: A mapping with ``messages`` and perhaps ``id``, ``source``, ``spans`` and further
            fields, or a bare list of messages. A message's ``content`` may be text, null, a list
            of blocks or a mapping and becomes text.
        default_id: The id of a trace that has none.

    Raises:
        SchemaError: A field is missing or does not fit.
    """
    if isinstance(data, list):
        data = {"messages": data}
    if not isinstance(data, dict):
        raise SchemaError(
            f"expected an object with messages or a list of messages, got {_kind(data)}"
        )
    messages = _parse_messages(data)
    identity = data.get("id")
    return Trace(
        id=default_id if identity is None else str(identity),
        messages=messages,
        source=str(data.get("source") or ""),
        spans=_parse_spans(data.get("spans"), messages),
        extra=_extra(data, _TRACE_FIELDS),
    )


def trace_to_data(trace: Trace) -> dict[str, Any]:
    """Return the trace as plain data, from which `parse_trace` gives an equal trace."""
    data: dict[str, Any] = {"id": trace.id}
    if trace.source:
        data["source"] = trace.source
    data["messages"] = [message.to_openai() for message in trace.messages]
    if trace.spans:
        data["spans"] = [_span_to_data(span) for span in trace.spans]
    return data | dict(trace.extra)


def _parse_messages(data: Mapping[str, Any]) -> tuple[Message, ...]:
    if "messages" not in data:
        raise SchemaError("the trace has no field 'messages'")
    messages = data["messages"]
    if not isinstance(messages, list):
        raise SchemaError(f"messages must be a list, got {_kind(messages)}")
    if not messages:
        raise SchemaError("messages is empty; a trace needs at least one message")
    return tuple(
        _parse_message(message, f"messages[{index}]") for index, message in enumerate(messages)
    )


def _parse_message(message: object, where: str) -> Message:
    if not isinstance(message, dict):
        raise SchemaError(f"{where} must be an object, got {_kind(message)}")
    role = message.get("role")
    if not isinstance(role, str) or not role:
        raise SchemaError(f"{where} has no role; expected a name such as 'user' or 'assistant'")
    return Message(
        role=role,
        content=content_text(message.get("content")),
        tool_calls=_parse_tool_calls(message.get("tool_calls"), where),
        extra=_extra(message, _MESSAGE_FIELDS),
    )


def _parse_tool_calls(calls: object, where: str) -> tuple[Mapping[str, Any], ...]:
    if calls is None:
        return ()
    if not isinstance(calls, list) or not all(isinstance(call, dict) for call in calls):
        raise SchemaError(f"{where}.tool_calls must be a list of objects")
    return tuple(calls)


def _parse_spans(spans: object, messages: tuple[Message, ...]) -> tuple[Span, ...]:
    if spans is None:
        return ()
    if not isinstance(spans, list):
        raise SchemaError(f"spans must be a list, got {_kind(spans)}")
    parsed = [_parse_span(span, f"spans[{i}]", messages) for i, span in enumerate(spans)]
    parsed.sort(key=lambda span: (span.message, span.start))
    for left, right in pairwise(parsed):
        if left.message == right.message and right.start < left.end:
            raise SchemaError(
                f"spans overlap in messages[{left.message}]: {left.start} to {left.end} and "
                f"{right.start} to {right.end}; each character may have one region"
            )
    return tuple(parsed)


def _parse_span(span: object, where: str, messages: tuple[Message, ...]) -> Span:
    if not isinstance(span, dict):
        raise SchemaError(f"{where} must be an object, got {_kind(span)}")
    index, start, end = (_whole_number(span, key, where) for key in ("message", "start", "end"))
    if not 0 <= index < len(messages):
        raise SchemaError(f"{where} is on message {index}, but the trace has {len(messages)}")
    length = len(messages[index].content)
    if not 0 <= start < end <= length:
        raise SchemaError(
            f"{where} goes from {start} to {end}, but messages[{index}] has {length} characters; "
            "expected 0 <= start < end <= characters"
        )
    try:
        region = Region.from_label(str(span.get("region")))
    except ValueError as error:
        raise SchemaError(f"{where}: {error}") from None
    return Span(index, start, end, region)


def _whole_number(span: Mapping[str, Any], key: str, where: str) -> int:
    value = span.get(key)
    if not isinstance(value, int) or isinstance(value, bool):
        raise SchemaError(f"{where}.{key} must be a whole number, got {value!r}")
    return value


def _span_to_data(span: Span) -> dict[str, Any]:
    return {
        "message": span.message,
        "start": span.start,
        "end": span.end,
        "region": span.region.label,
    }


def _extra(data: Mapping[str, Any], known: frozenset[str]) -> tuple[tuple[str, Any], ...]:
    return tuple((key, value) for key, value in data.items() if key not in known)


def _kind(value: object) -> str:
    if value is None:
        return "null"
    names = {dict: "an object", list: "a list", str: "text", bool: "true or false"}
    return names.get(type(value), "a number")
