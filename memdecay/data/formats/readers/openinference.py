"""OpenInference spans (Phoenix, Arize): messages flattened into numbered attributes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from memdecay.data.formats.base import CERTAIN, NO, Draft, Format, each_item
from memdecay.data.formats.chat import read_messages
from memdecay.data.formats.flat import nested
from memdecay.data.formats.report import Notes
from memdecay.data.formats.sample import Sample
from memdecay.data.formats.span_words import note_around_spans, note_span_words
from memdecay.data.formats.spans import RESOURCE_LISTS, spans_of
from memdecay.data.formats.values import as_list, as_map, unpack_json

_MESSAGES = ("llm.input_messages", "llm.output_messages")


def score(sample: Sample) -> int:
    """Tell spans with ``llm.input_messages`` or ``llm.output_messages``."""
    for record in sample.records():
        for span in spans_of(record):
            if any(name.startswith(_MESSAGES) for name in span.attributes):
                return CERTAIN
    return NO


def _read(record: Mapping[str, Any], notes: Notes, where: str) -> Iterator[Draft]:
    note_around_spans(record, notes)
    for span in spans_of(record):
        listed = [item for key in _MESSAGES for item in as_list(nested(span.attributes, key))]
        if not listed:
            notes.skip("span without messages", where=where)
            continue
        messages = read_messages((_spelled(item) for item in listed), notes, where)
        tools = [_schema(tool) for tool in as_list(nested(span.attributes, "llm.tools"))]
        note_span_words(span, (*_MESSAGES, "llm.tools"), messages, notes)
        meta = {"span": span.name, "model": span.attributes.get("llm.model_name")}
        yield Draft(messages, {"task_id": span.trace_id, "tools": tools, "meta": meta}, where=where)


def _spelled(item: object) -> object:
    """Spell a message the usual way: contents and calls stand one level deeper here."""
    message = dict(as_map(as_map(item).get("message")))
    if not message:
        return item
    if contents := as_list(message.pop("contents", None)):
        blocks = [_content(as_map(block)) for block in contents]
        known = {block.get("text") for block in blocks}
        own = [text for text in (message.get("content"),) if text and text not in known]
        message["content"] = [*own, *blocks]
    if name := message.pop("function_call_name", None):
        arguments = message.pop("function_call_arguments_json", None)
        message["function_call"] = {"name": name, "arguments": arguments}
    if calls := as_list(message.get("tool_calls")):
        message["tool_calls"] = [as_map(call).get("tool_call", call) for call in calls]
    return message


def _content(block: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a content block without the prefix of its names."""
    inner = as_map(block.get("message_content")) or block
    return {key.removeprefix("message_content."): value for key, value in inner.items()}


def _schema(tool: object) -> Any:
    schema = as_map(as_map(tool).get("tool")).get("json_schema", tool)
    return unpack_json(schema)


FORMAT = Format(
    "openinference", "OpenInference spans", score, each_item(_read, *RESOURCE_LISTS), merges=True
)
