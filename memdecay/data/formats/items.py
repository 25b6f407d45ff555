"""Items of OpenAI's Responses API that are no messages: calls, their outputs, reasoning."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from memdecay.data.formats.calls import tool_call
from memdecay.data.formats.content import content_text
from memdecay.data.formats.report import Notes
from memdecay.data.formats.tool_errors import error_fields, with_error
from memdecay.data.formats.values import as_map, as_str, first_str, unpack_json
from memdecay.data.trace import Message

# Of calls that OpenAI runs: what a code interpreter prints, what a file search finds.
_OUTPUT_KEYS = ("output", "outputs", "results")


def _call_item(raw: Mapping[str, Any], notes: Notes) -> list[Message]:
    name = first_str(raw, ("name",)) or as_str(raw.get("type")).removesuffix("_call")
    keys = ("arguments", "input", "action", "operation", "queries", "code")
    arguments = next((raw[key] for key in keys if raw.get(key) is not None), None)
    call_id = first_str(raw, ("call_id", "id"))
    if as_str(raw.get("type")) == "custom_tool_call" and isinstance(arguments, str):
        arguments = {"input": arguments}
    call = Message("assistant", "", (tool_call(name, arguments, call_id, notes),))
    # Calls that OpenAI runs itself carry their output along.
    has_output = any(raw.get(key) for key in (*_OUTPUT_KEYS, "error"))
    return [call, *(_output_item(raw, notes) if has_output else ())]


def _output_item(raw: Mapping[str, Any], notes: Notes) -> list[Message]:
    extra = {"tool_call_id": first_str(raw, ("call_id", "id")), **error_fields(raw)}
    text = with_error(content_text(_output(raw), notes), raw)
    return [Message("tool", text, (), tuple(extra.items()))]


def _output(raw: Mapping[str, Any]) -> object:
    """Return the output; Codex wraps a command's output in JSON with its metadata."""
    output = unpack_json(raw.get("output"))
    for key, beside in (("output", {"metadata"}), ("content", {"success"})):
        if key in as_map(output) and set(output) <= {key, *beside}:
            return output[key]
    return next((raw[key] for key in _OUTPUT_KEYS if raw.get(key) is not None), None)


def read_reasoning(raw: Mapping[str, Any], notes: Notes) -> list[str]:
    """Return the text of a reasoning item, none if it is encrypted."""
    texts = [content_text(raw.get(key), notes) for key in ("summary", "content")]
    text = "\n".join(text for text in texts if text)
    if not text:
        notes.skip("encrypted reasoning")
        return []
    return [text]


ITEM_READERS: dict[str, Callable[[Mapping[str, Any], Notes], list[Message]]] = {
    "function_call": _call_item,
    "custom_tool_call": _call_item,
    "local_shell_call": _call_item,
    "web_search_call": _call_item,
    "file_search_call": _call_item,
    "computer_call": _call_item,
    "mcp_call": _call_item,
    "code_interpreter_call": _call_item,
    "function_call_output": _output_item,
    "custom_tool_call_output": _output_item,
    "local_shell_call_output": _output_item,
    "computer_call_output": _output_item,
}
