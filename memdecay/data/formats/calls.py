"""Tool calls: one shape for calls of any spelling, and results paired to them by position."""

from __future__ import annotations

import ast
import json
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from memdecay.data.formats.leftovers import has_leftovers, note_leftovers
from memdecay.data.formats.report import Notes
from memdecay.data.formats.values import as_map, as_str, dump_json, first_str
from memdecay.data.trace import Message

NAME_KEYS = ("name", "function_name", "tool_name", "toolName", "tool", "function")
ARGUMENT_KEYS = ("arguments", "input", "args", "parameters", "kwargs", "action_input")
ID_KEYS = ("id", "call_id", "tool_call_id", "toolCallId", "tool_use_id")
_BODY_KEYS = ("function", "custom", "tool_call")
_READ = {*NAME_KEYS, *ID_KEYS, "type", "index"}
_MAX_REPR_CHARACTERS = 200_000


def tool_call(name: str, arguments: object, call_id: str, notes: Notes) -> dict[str, Any]:
    """Build a call in OpenAI's shape; ``arguments`` becomes a JSON string where it can."""
    function = {"name": name, "arguments": arguments_text(arguments, notes)}
    return {"id": call_id, "type": "function", "function": function}


def read_call(raw: object, notes: Notes) -> dict[str, Any] | None:
    """Read one call: nested under ``function`` or ``tool_call``, flat, or Anthropic's block.

    Returns:
        The call in OpenAI's shape (its id empty when missing), or None if ``raw`` is no call.
    """
    if not isinstance(raw, Mapping):
        notes.skip("tool call that is no object")
        return None
    call_id = first_str(raw, ID_KEYS)
    inner = next((raw[key] for key in _BODY_KEYS if as_map(raw.get(key))), raw)
    if as_map(inner.get("function")):
        call_id, inner = call_id or first_str(inner, ID_KEYS), inner["function"]
    name = first_str(inner, NAME_KEYS)
    if not name:
        notes.repair("tool call without a name kept")
    given = next((key for key in ARGUMENT_KEYS if inner.get(key) is not None), "")
    arguments = inner.get(given)
    if not given and has_leftovers(inner, _READ):
        notes.repair("fields of a call without arguments taken for them")
        arguments = {key: value for key, value in inner.items() if key not in _READ}
    else:
        note_leftovers(inner, {given, *_READ}, notes, "tool call")
    return tool_call(name or "unknown", arguments, call_id, notes)


def arguments_text(arguments: object, notes: Notes) -> str:
    """Return arguments as JSON text; a Python repr is converted, broken JSON stays as it is."""
    if arguments is None:
        return "{}"
    if not isinstance(arguments, str):
        return dump_json(arguments)
    if not arguments.strip():
        return "{}"
    try:
        json.loads(arguments)
    except (ValueError, RecursionError):
        return _repr_as_json(arguments, notes)
    return arguments


def _repr_as_json(arguments: str, notes: Notes) -> str:
    if len(arguments) <= _MAX_REPR_CHARACTERS and arguments.lstrip()[:1] in ("{", "[", "("):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # Invalid escapes in foreign text.
                value = ast.literal_eval(arguments.strip())
        except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
            pass
        else:
            notes.repair("arguments written as Python, made JSON")
            return dump_json(value)
    notes.notice("arguments that are no JSON kept as text")
    return arguments


@dataclass(frozen=True, slots=True)
class _OpenCall:
    """A call still without a result: its id in the source, the id given here, its turn."""

    old: str
    new: str
    turn: int


def pair_calls(messages: Sequence[Message], notes: Notes) -> tuple[Message, ...]:
    """Give every call an id of its own and every tool result the id of its call.

    A result belongs to the open call with its id, that of the latest turn if the id repeats; a
    result without an id to the first open call of the latest turn, else to the first open one.
    Results that fit no open call stay as they are.
    """
    used: set[str] = set()
    open_calls: list[_OpenCall] = []
    paired = []
    # In text formats no call is structured, so results have none to belong to.
    any_calls = any(message.tool_calls for message in messages)
    for turn, message in enumerate(messages):
        current = message
        if message.tool_calls:
            current = _name_calls(message, turn, used, open_calls, notes)
        elif message.role == "tool" and (any_calls or "tool_call_id" in dict(message.extra)):
            current = _answer(message, open_calls, notes)
        paired.append(current)
    notes.notice("tool call without a result", len(open_calls))
    return tuple(paired)


def _name_calls(
    message: Message, turn: int, used: set[str], open_calls: list[_OpenCall], notes: Notes
) -> Message:
    calls = []
    for call in message.tool_calls:
        old = as_str(call.get("id"))
        new = _free_id(old or "call", used) if old in used or not old else old
        used.add(new)
        if new != old:
            notes.repair("repeated call id made unique" if old else "missing call id given")
        open_calls.append(_OpenCall(old, new, turn))
        calls.append({**call, "id": new})
    return replace(message, tool_calls=tuple(calls))


def _free_id(base: str, used: set[str]) -> str:
    # Start past the ids in use: one trace may repeat an id thousands of times.
    number = len(used) + 1
    while f"{base}_{number}" in used:
        number += 1
    return f"{base}_{number}"


def _answer(message: Message, open_calls: list[_OpenCall], notes: Notes) -> Message:
    extra = dict(message.extra)
    old = as_str(extra.get("tool_call_id"))
    fitting = [call for call in open_calls if call.old == old or not old]
    if not fitting:
        notes.notice("tool result without a call")
        return message
    latest = max(call.turn for call in fitting)
    match = next(call for call in fitting if call.turn == latest)
    open_calls.remove(match)
    if match.new == old:
        return message
    notes.repair("result paired to its call by position")
    return replace(message, extra=tuple((extra | {"tool_call_id": match.new}).items()))
