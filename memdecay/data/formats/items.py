"""Items of OpenAI's Responses API that are no messages: calls, their outputs, reasoning."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from memdecay.data.formats.calls import tool_call
from memdecay.data.formats.content import content_text
from memdecay.data.formats.leftovers import note_leftovers
from memdecay.data.formats.report import Notes
from memdecay.data.formats.tool_errors import error_fields, with_error
from memdecay.data.formats.values import as_map, as_str, first_str, unpack_json
from memdecay.data.trace import Message

# Of calls that OpenAI runs: what a code interpreter prints, what a file search finds.
_OUTPUT_KEYS = ("output", "outputs", "results")
_ARGUMENT_KEYS = ("arguments", "input", "action", "operation", "queries", "code", "revised_prompt")
_READ = {*_ARGUMENT_KEYS, *_OUTPUT_KEYS, "name", "call_id", "error"}
_MESSAGE_KEYS = {"content", "value", "text"}
# What the interface keeps for itself: no word of the conversation.
_SILENT = {"item_reference", "mcp_list_tools", "mcp_approval_request", "mcp_approval_response"}
_SILENT |= {"compaction", "ghost_snapshot"}


def _call_item(raw: Mapping[str, Any], notes: Notes) -> list[Message]:
    name = first_str(raw, ("name",)) or as_str(raw.get("type")).removesuffix("_call")
    arguments = next((raw[key] for key in _ARGUMENT_KEYS if raw.get(key) is not None), None)
    call_id = first_str(raw, ("call_id", "id"))
    if as_str(raw.get("type")) == "custom_tool_call" and isinstance(arguments, str):
        arguments = {"input": arguments}
    if as_str(raw.get("type")) == "image_generation_call" and raw.get("result"):
        raw = {**raw, "output": {"type": "image"}, "result": None}
    note_leftovers(raw, _READ, notes, "call")
    call = Message("assistant", "", (tool_call(name, arguments, call_id, notes),))
    # Calls that OpenAI runs itself carry their output along.
    has_output = any(raw.get(key) for key in (*_OUTPUT_KEYS, "error"))
    return [call, *(_result(raw, notes) if has_output else ())]


def _output_item(raw: Mapping[str, Any], notes: Notes) -> list[Message]:
    if raw.get("tools") and not raw.get("output"):
        raw = {**raw, "output": raw["tools"], "tools": None}  # What a search for tools finds.
    note_leftovers(raw, _READ, notes, "call's output")
    return _result(raw, notes)


def _result(raw: Mapping[str, Any], notes: Notes) -> list[Message]:
    output, beside = _output(raw)
    extra = {"tool_call_id": first_str(raw, ("call_id", "id")), **error_fields(raw), **beside}
    text = with_error(content_text(output, notes), raw)
    return [Message("tool", text, (), tuple(extra.items()))]


def _output(raw: Mapping[str, Any]) -> tuple[object, dict[str, Any]]:
    """Return the output and what Codex wraps around it: a command's metadata, its success."""
    output = unpack_json(raw.get("output"))
    for key, beside in (("output", "metadata"), ("content", "success")):
        if key in as_map(output) and set(output) <= {key, beside}:
            return output[key], {beside: output[beside]} if beside in output else {}
    return next((raw[key] for key in _OUTPUT_KEYS if raw.get(key) is not None), None), {}


def read_reasoning(raw: Mapping[str, Any], notes: Notes) -> list[str]:
    """Return the text of a reasoning item, none if it is encrypted."""
    texts = [content_text(raw.get(key), notes) for key in ("summary", "content", "text")]
    text = "\n".join(text for text in texts if text)
    if not text:
        notes.skip("encrypted reasoning")
        return []
    return [text]


def _silent_item(raw: Mapping[str, Any], notes: Notes) -> list[Message]:
    notes.skip(f"{as_str(raw.get('type'))} item")
    return []


def item_reader(
    raw: Mapping[str, Any],
) -> Callable[[Mapping[str, Any], Notes], list[Message]] | None:
    """Return what reads an item by its type; None if it is a message or unknown."""
    kind = as_str(raw.get("type"))
    if kind in _SILENT:
        return _silent_item
    if kind.endswith(("_call_output", "_search_output")):
        return _output_item
    is_call = kind.endswith("_call") and (kind != "tool_call" or not _MESSAGE_KEYS & set(raw))
    return _call_item if is_call else None
