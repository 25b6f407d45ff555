"""Chat messages of any shape, brought into the one that is rendered."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

_LONE_SURROGATE = re.compile("[\ud800-\udfff]")
_TEXT_KEYS = ("text", "value", "content")
_MAX_DEPTH = 16


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A structured call of a tool.

    Attributes:
        name: The tool.
        arguments: A mapping where the source's arguments can be read as one, else its text.
        id: The source's id of the call; empty if it has none.
    """

    name: str
    arguments: Mapping[str, Any] | str
    id: str = ""

    def to_text(self) -> str:
        """Return the call as the text that tool-using models write."""
        call = {"name": self.name, "arguments": self.arguments}
        return f"<tool_call>\n{clean_text(_dump(call))}\n</tool_call>"

    def to_openai(self) -> dict[str, Any]:
        """Return the call as chat templates expect it, the arguments as a mapping if possible."""
        function = {"name": self.name, "arguments": self.arguments}
        return {"id": self.id, "type": "function", "function": function}


@dataclass(frozen=True, slots=True)
class ChatMessage:
    """A message with plain text content.

    Attributes:
        role: The role as the source spells it.
        content: Its text, without lone surrogates.
        calls: Its structured tool calls.
        name: The writer's or tool's name; empty if none.
        tool_call_id: The call that this message answers; empty if none.
    """

    role: str
    content: str
    calls: tuple[ToolCall, ...] = ()
    name: str = ""
    tool_call_id: str = ""

    @property
    def calls_text(self) -> str:
        """The calls as text, one after the other; empty if there are none."""
        return "\n".join(call.to_text() for call in self.calls)


def chat_message(message: Mapping[str, Any]) -> ChatMessage:
    """Read an OpenAI chat message, also a sloppy one.

    ``content`` may be missing, null, text, a list of blocks or a mapping (see `content_text`);
    call arguments may be a mapping, JSON text or broken text.
    """
    return ChatMessage(
        role=clean_text(_text(message.get("role"))),
        content=clean_text(content_text(message.get("content"))),
        calls=_calls(message),
        name=clean_text(_text(message.get("name"))),
        tool_call_id=clean_text(_text(message.get("tool_call_id"))),
    )


def content_text(content: object) -> str:
    r"""Return the text of a message's content.

    A list gives the texts of its blocks, one a line; a block's text stands under ``text``,
    ``value`` or ``content``. A typed block without text gives its type in brackets, any other
    mapping its JSON.

    >>> content_text([{"type": "text", "text": "Look:"}, {"type": "image_url", "image_url": {}}])
    'Look:\n[image_url]'
    """
    return _content_text(content, 0)


def clean_text(text: str) -> str:
    r"""Return the text with each lone surrogate replaced by U+FFFD, so that lengths stay.

    >>> clean_text("a\ud800b")
    'a�b'
    """
    return _LONE_SURROGATE.sub("\ufffd", text)


def _content_text(content: object, depth: int) -> str:
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    if depth < _MAX_DEPTH:
        if isinstance(content, Mapping):
            return _block_text(content, depth)
        if isinstance(content, Sequence):
            return "\n".join(_content_text(block, depth + 1) for block in content)
    return _dump(content)


def _block_text(block: Mapping[str, Any], depth: int) -> str:
    for key in _TEXT_KEYS:
        if block.get(key) is not None:
            return _content_text(block[key], depth + 1)
    kind = block.get("type")
    return f"[{kind}]" if isinstance(kind, str) else _dump(block)


def _calls(message: Mapping[str, Any]) -> tuple[ToolCall, ...]:
    calls = message.get("tool_calls")
    raw: list[Any] = list(calls) if isinstance(calls, list | tuple) else []
    if isinstance(message.get("function_call"), Mapping):  # The older spelling of a single call.
        raw.append(message["function_call"])
    return tuple(_call(call) for call in raw)


def _call(call: Any) -> ToolCall:
    if not isinstance(call, Mapping):
        return ToolCall("", clean_text(_text(call)))
    function = call.get("function")
    body = function if isinstance(function, Mapping) else call
    name = body.get("name") or (function if isinstance(function, str) else "")
    arguments = _arguments(body.get("arguments"))
    return ToolCall(clean_text(_text(name)), arguments, clean_text(_text(call.get("id"))))


def _arguments(arguments: Any) -> Mapping[str, Any] | str:
    if arguments is None:
        return {}
    if isinstance(arguments, str):
        try:
            parsed = json.loads(arguments)
        except (ValueError, RecursionError):
            return clean_text(arguments)
        arguments = parsed if isinstance(parsed, dict) else arguments
    if not isinstance(arguments, Mapping):
        return clean_text(_text(arguments))
    # Through JSON once, so that a template's own `tojson` meets no lone surrogate.
    text = clean_text(_dump(arguments))
    try:
        cleaned: dict[str, Any] = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return cleaned


def _text(value: Any) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else _dump(value)


def _dump(value: Any) -> str:
    try:
        return json.dumps(value, ensure_ascii=False, default=str)
    except (TypeError, ValueError):
        return str(value)
    except RecursionError:
        return f"[{type(value).__name__} nested too deeply]"
