"""What went into a model call and what came out, in the many ways in which loggers hold it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from memdecay.data.formats.chat import read_messages
from memdecay.data.formats.content import content_text
from memdecay.data.formats.report import Notes
from memdecay.data.formats.values import as_list, as_map, first_str, unpack_json
from memdecay.data.trace import Message

_PROMPT_KEYS = ("messages", "contents", "input", "prompt", "prompts", "chat_history", "question")
_REPLY_KEYS = ("choices", "generations", "output", "messages", "candidates", "message", "response")


def prompt_messages(value: object, notes: Notes, where: str = "") -> list[Message]:
    """Read the input of a model call.

    Args:
        value: Messages, a list of lists of them, a request object, or a prompt as text; each also
            as a JSON string.
        notes: Counts what cannot be read.
        where: The place in the file, for the report.
    """
    value = unpack_json(value)
    if isinstance(value, str):
        return [Message("user", value)] if value else []
    if isinstance(value, list):
        return _listed(value, notes, where)
    request = as_map(value)
    if is_message(request):
        return read_messages([request], notes, where)
    system = first_str(request, ("instructions",)) or content_text(request.get("system"), notes)
    messages = [Message("system", system)] if system else []
    for key in _PROMPT_KEYS:
        if request.get(key):
            return messages + prompt_messages(request[key], notes, where)
    return messages


def reply_messages(value: object, notes: Notes, where: str = "") -> list[Message]:
    """Read the output of a model call: a reply, choices, generations, or text."""
    value = unpack_json(value)
    if isinstance(value, str):
        return [Message("assistant", value)] if value else []
    if isinstance(value, list):
        return _listed_replies(value, notes, where)
    reply = as_map(value)
    if is_message(reply):
        return read_messages([{"role": "assistant", **reply}], notes, where)
    for key in _REPLY_KEYS:
        if reply.get(key):
            return reply_messages(reply[key], notes, where)
    if isinstance(reply.get("text"), str):
        return [Message("assistant", reply["text"])]
    return []


def exchange(prompt: object, reply: object, notes: Notes, where: str = "") -> list[Message]:
    """Return the conversation of a model call; a reply that repeats the prompt stands for both."""
    before = prompt_messages(prompt, notes, where)
    after = reply_messages(reply, notes, where)
    if len(after) > len(before) and after[: len(before)] == before:
        return after
    return before + after


def is_message(value: Mapping[str, Any]) -> bool:
    """Tell whether an object looks like one message."""
    if "role" in value and not {"messages", "choices"} & set(value):
        return True
    if "kwargs" in value and isinstance(value.get("id"), list):
        return True
    return "tool_calls" in value or ("content" in value and "choices" not in value)


def _listed(values: list[Any], notes: Notes, where: str) -> list[Message]:
    if values and all(isinstance(value, list) for value in values):
        values = as_list(values[0])  # LangChain batches: one list for each prompt.
    if values and all(isinstance(value, str) for value in values):
        return [Message("user", value) for value in values]
    return read_messages((unpack_json(value) for value in values), notes, where)


def _listed_replies(values: list[Any], notes: Notes, where: str) -> list[Message]:
    """Take the first of alternative replies; read a list of messages whole."""
    first = values[0] if values else None
    if isinstance(first, list):
        return _listed_replies(first, notes, where)
    wrapped = as_map(first)
    if as_map(wrapped.get("message")) or (
        "text" in wrapped and not {"role", "type"} & set(wrapped)
    ):
        notes.skip("alternative reply", len(values) - 1, where)
        inner = wrapped.get("message") or wrapped
        return reply_messages(inner, notes, where)
    return _listed(values, notes, where)
