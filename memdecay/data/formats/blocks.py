"""Content blocks that hold calls, results and reasoning beside the text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from memdecay.data.formats.calls import read_call
from memdecay.data.formats.content import content_text
from memdecay.data.formats.leftovers import note_leftovers
from memdecay.data.formats.report import Notes
from memdecay.data.formats.thoughts import thought_of
from memdecay.data.formats.tool_errors import error_fields, with_error
from memdecay.data.formats.values import as_map, as_str, first_str, unpack_json
from memdecay.data.trace import Message

_CALLS = {"tool_use", "server_tool_use", "mcp_tool_use", "tool_call", "toolcall", "function_call"}
_CALLS |= {"server_tool_call"}
_RESULTS = {"toolresult", "tool_response", "function_response", "functionresponse"}
# With what stands before them: web_search_tool_result, server_tool_call_response.
_RESULT_ENDINGS = ("tool_result", "tool_call_response")
_REASONING = {"thinking", "reasoning", "redacted_thinking"}
_RESULT_KEYS = ("content", "response", "result", "output", "value", "server_tool_call_response")
_RESULT_ID_KEYS = ("tool_use_id", "toolCallId", "tool_call_id", "call_id", "id")
_NAME_KEYS = ("name", "toolName", "tool_name")
_READ_OF_RESULTS = {*_RESULT_ID_KEYS, *_NAME_KEYS, "error"}


@dataclass(slots=True)
class Parts:
    """What a message's content holds.

    Attributes:
        text: The text blocks, joined by line breaks.
        reasoning: The texts of reasoning blocks.
        calls: Tool calls in OpenAI's shape.
        results: Tool results, a message each.
        text_first: Whether text came before the first result.
    """

    text: str = ""
    reasoning: list[str] = field(default_factory=list)
    calls: list[dict[str, Any]] = field(default_factory=list)
    results: list[Message] = field(default_factory=list)
    text_first: bool = False


def split_blocks(content: object, notes: Notes) -> Parts:
    """Split content of any type into text, reasoning, calls and results."""
    parts = Parts()
    if not isinstance(content, list):
        parts.text = content_text(content, notes)
        return parts
    texts: list[str] = []
    for block in content:
        if not _take_special(block, parts, notes):
            text = content_text(block, notes)
            texts += [text] if text else []
            parts.text_first = parts.text_first or (bool(text) and not parts.results)
    parts.text = "\n".join(texts)
    return parts


def _take_special(block: object, parts: Parts, notes: Notes) -> bool:
    """Take a block that is no text into ``parts``; tell whether it was one."""
    if not isinstance(block, Mapping):
        return False
    kind = as_str(block.get("type")).lower().replace("-", "_") or _gemini_kind(block)
    if kind in _CALLS:
        call = read_call(_call_body(block), notes)
        parts.calls += [call] if call else []
    elif kind in _RESULTS or kind.endswith(_RESULT_ENDINGS):
        parts.results.append(_result(block, notes))
    elif kind in _REASONING or block.get("thought") is True:
        text = thought_of(block, notes)
        parts.reasoning += [text] if text else []
    else:
        return False
    return True


def _gemini_kind(block: Mapping[str, Any]) -> str:
    """Gemini's parts have no type; a key of that name holds the body."""
    for key in ("functionCall", "function_call", "functionResponse", "function_response"):
        if as_map(block.get(key)):
            return "function_call" if key.lower().endswith("call") else "function_response"
    return ""


def _call_body(block: Mapping[str, Any]) -> object:
    """Return the mapping with name and arguments: the block, or JSON inside one of its keys."""
    for key in ("value", "functionCall", "function_call"):
        if block.get(key) is not None:
            return unpack_json(block[key])
    return block


def _result(block: Mapping[str, Any], notes: Notes) -> Message:
    inner = as_map(block.get("functionResponse") or block.get("function_response")) or block
    full = (key for key in _RESULT_KEYS if inner.get(key) not in (None, "", []))
    body_key = next(full, "content")
    note_leftovers(inner, {body_key, *_READ_OF_RESULTS}, notes, "tool result")
    extra: dict[str, Any] = {}
    call_id = first_str(inner, _RESULT_ID_KEYS)
    name = first_str(inner, _NAME_KEYS)
    extra |= {"tool_call_id": call_id} if call_id else {}
    extra |= {"name": name} if name else {}
    extra |= error_fields(inner)
    text = with_error(content_text(_plain(inner.get(body_key)), notes), inner)
    return Message("tool", text, (), tuple(extra.items()))


def _plain(body: object) -> object:
    """Unwrap ``{"output": text}``, which Gemini puts around results."""
    wrapped = as_map(body)
    return wrapped["output"] if set(wrapped) == {"output"} else body
