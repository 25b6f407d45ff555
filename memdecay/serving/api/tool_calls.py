"""Calls of tools in a model's text: reading them while it is written, and forcing them."""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from memdecay.classifier.messages import ToolCall, content_text
from memdecay.serving.api.schemas.chat import Call, CalledFunction

OPENING = "<tool_call>"
CLOSING = "</tool_call>"
_MAX_PLACEHOLDER_CHARACTERS = 200
_MAX_DEPTH = 8
_WORD = re.compile(r"[a-z]{3,}")
_EMPTY: Mapping[str, Any] = {"integer": 0, "number": 0, "boolean": False, "null": None}


@dataclass(frozen=True, slots=True)
class Said:
    """A piece of what the model said: text, or a whole call.

    Attributes:
        text: Text for people; empty beside a call.
        call: The call, if it is one.
    """

    text: str = ""
    call: Call | None = None


class ToolCallReader:
    """Takes a text piece by piece and gives text and calls as soon as they are certain.

    What looks like a call but can't be read as one comes out as the text that it is. White space
    around calls belongs to nobody and goes.
    """

    def __init__(self) -> None:
        self._waiting = ""
        self._has_call = False

    def feed(self, text: str) -> list[Said]:
        """Take more text and return what is certain by now."""
        self._waiting += text
        said: list[Said] = []
        while (piece := self._next()) is not None:
            said.append(piece)
        return [piece for piece in said if piece.call or piece.text]

    def finish(self) -> list[Said]:
        """Return what still waits; a call that has no end is text."""
        text, self._waiting = self._waiting, ""
        if self._has_call and not text.strip():
            return []
        return [Said(text)] if text else []

    def _next(self) -> Said | None:
        start = self._waiting.find(OPENING)
        if start < 0:
            return self._take_text(len(self._waiting) - _possible_opening(self._waiting))
        if self._waiting[:start].strip():
            return self._take_text(start)
        end = self._waiting.find(CLOSING, start)
        if end < 0:
            return None
        body = self._waiting[start + len(OPENING) : end]
        end += len(CLOSING)
        call = _read_call(body)
        if call is None:
            return self._take_text(end, keeps_space=True)
        self._waiting = self._waiting[end:]
        self._has_call = True
        return Said(call=call)

    def _take_text(self, end: int, *, keeps_space: bool = False) -> Said | None:
        text = self._waiting[:end]
        if not keeps_space:
            # Space at the end may turn out to stand before a call.
            text = text.rstrip()
        if not text:
            return None
        self._waiting = self._waiting[len(text) :]
        return Said(text)


def read_calls(text: str) -> tuple[str, tuple[Call, ...]]:
    """Return a whole text without its calls, and the calls."""
    reader = ToolCallReader()
    said = [*reader.feed(text), *reader.finish()]
    calls = tuple(piece.call for piece in said if piece.call)
    return "".join(piece.text for piece in said), calls


def forced_call(
    tools: Sequence[Mapping[str, Any]], name: str | None, messages: Sequence[Mapping[str, Any]]
) -> ToolCall:
    """Return a call that the model is made to write.

    Small models call no tools by themselves. The call's arguments come from the tool's schema:
    each required one takes its default, its first allowed value, or a value of its type; a text
    takes the newest message's.

    Args:
        tools: OpenAI tool definitions, at least one.
        name: The tool to call; None takes the one that fits the newest message best among those
            that were not called since the last user message.
        messages: The conversation.

    Raises:
        ValueError: No tool has this name.
    """
    functions = [tool["function"] for tool in tools]
    if name is None:
        function = _fitting(functions, messages)
    else:
        found = [function for function in functions if function["name"] == name]
        if not found:
            names = ", ".join(function["name"] for function in functions) or "none"
            raise ValueError(f"tool_choice names {name!r}, but the tools are {names}")
        function = found[0]
    text = _newest_text(messages)[:_MAX_PLACEHOLDER_CHARACTERS]
    arguments = _object(function.get("parameters") or {}, text, 0)
    return ToolCall(function["name"], arguments)


def _possible_opening(text: str) -> int:
    """Return how many characters at the end may begin an opening tag."""
    lengths = range(min(len(OPENING) - 1, len(text)), 0, -1)
    return next((length for length in lengths if OPENING.startswith(text[-length:])), 0)


def _read_call(body: str) -> Call | None:
    try:
        data = json.loads(body)
    except (ValueError, RecursionError):
        return None
    if not isinstance(data, dict) or not isinstance(data.get("name"), str) or not data["name"]:
        return None
    arguments = data.get("arguments", {})
    if not isinstance(arguments, str):
        arguments = json.dumps(arguments, ensure_ascii=False)
    function = CalledFunction(name=data["name"], arguments=arguments)
    return Call(id=f"call_{uuid.uuid4().hex[:24]}", function=function)


def _fitting(
    functions: Sequence[Mapping[str, Any]], messages: Sequence[Mapping[str, Any]]
) -> Mapping[str, Any]:
    called = _called(messages, [function["name"] for function in functions])
    words = set(_WORD.findall(_newest_text(messages).lower()))

    def rank(function: Mapping[str, Any]) -> tuple[int, int]:
        about = f"{function['name']} {function.get('description') or ''}".lower()
        return called.count(function["name"]), -len(words.intersection(_WORD.findall(about)))

    return min(functions, key=rank)


def _called(messages: Sequence[Mapping[str, Any]], names: Sequence[str]) -> list[str]:
    """Return the tools that were called since the user spoke last.

    Some clients write calls into an assistant's text and results into a user's message: behind an
    assistant that names a tool, no user speaks.
    """
    called: list[str] = []
    before = [*messages[:1], *messages[:-1]]
    for message, earlier in zip(reversed(messages), reversed(before), strict=True):
        if message["role"] == "user" and not _named(earlier, names):
            break
        called += _named(message, names)
    return called


def _named(message: Mapping[str, Any], names: Sequence[str]) -> list[str]:
    if message["role"] != "assistant":
        return []
    if calls := message.get("tool_calls"):
        return [call["function"]["name"] for call in calls]
    text = content_text(message.get("content"))
    return [name for name in names if name in text]


def _newest_text(messages: Sequence[Mapping[str, Any]]) -> str:
    for message in reversed(messages):
        if message["role"] != "assistant" and (text := content_text(message.get("content"))):
            return text.strip()
    return ""


def _value(schema: Any, text: str, depth: int) -> Any:
    if not isinstance(schema, dict) or depth > _MAX_DEPTH:
        return text
    for key in ("const", "default"):
        if key in schema:
            return schema[key]
    if isinstance(choices := schema.get("enum") or schema.get("examples"), list) and choices:
        return choices[0]
    if isinstance(options := schema.get("anyOf") or schema.get("oneOf"), list) and options:
        return _value(options[0], text, depth + 1)
    kind = schema.get("type")
    kind = kind[0] if isinstance(kind, list) and kind else kind
    if kind == "object":
        return _object(schema, text, depth)
    if kind == "array":
        return [_value(schema.get("items"), text, depth + 1)] if schema.get("minItems") else []
    return _EMPTY.get(kind, text) if isinstance(kind, str) else text


def _object(schema: Mapping[str, Any], text: str, depth: int) -> dict[str, Any]:
    properties, required = schema.get("properties"), schema.get("required")
    if not isinstance(properties, dict):
        return {}
    names = required if isinstance(required, list) else ()
    return {
        name: _value(properties.get(name), text, depth + 1)
        for name in names
        if isinstance(name, str)
    }
