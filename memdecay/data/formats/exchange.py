"""What went into a model call and what came out, in the many ways in which loggers hold it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from memdecay.data.formats.chat import read_messages
from memdecay.data.formats.content import content_text
from memdecay.data.formats.leftovers import note_leftovers
from memdecay.data.formats.report import Notes
from memdecay.data.formats.values import as_list, as_map, unpack_json
from memdecay.data.trace import Message

_SYSTEM_KEYS = (
    *("instructions", "system", "system_prompt"),
    *("systemInstruction", "system_instruction"),
)
_HISTORY = "chat_history"
_PROMPT_KEYS = ("messages", "contents", "input", "prompt", "prompts", "question")
_REPLY_KEYS = ("choices", "generations", "output", "messages", "candidates", "message", "response")

# How a call is made and what is counted about it: no word of the conversation.
SETTINGS = {"tools", "functions", "tool_choice", "response_format", "stop", "stream", "user"}
SETTINGS |= {"invocation_params", "options", "generation_config", "generationConfig"}
SETTINGS |= {"generation_info", "llm_output", "run", "type", "modelVersion"}
SETTINGS |= {"promptFeedback", "usageMetadata", "safetySettings", "safety_settings"}


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
    messages = system_messages(request, _SYSTEM_KEYS, notes)
    key = next((key for key in _PROMPT_KEYS if request.get(key)), "")
    read = {key, _HISTORY, "reasoning", *_SYSTEM_KEYS, *SETTINGS}
    note_leftovers(request, read, notes, "model call's input")
    given = (request[part] for part in (_HISTORY, key) if request.get(part))
    return messages + [message for part in given for message in prompt_messages(part, notes, where)]


def system_messages(
    request: Mapping[str, Any], keys: Collection[str], notes: Notes
) -> list[Message]:
    """Read the system prompt that stands beside the messages, under one or more keys."""
    texts = [_system_text(request.get(key), notes) for key in keys]
    return [Message("system", text) for text in dict.fromkeys(texts) if text]


def _system_text(value: object, notes: Notes) -> str:
    parts = as_map(value).get("parts")
    return "" if isinstance(value, bool) else content_text(value if parts is None else parts, notes)


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
    key = next((key for key in (*_REPLY_KEYS, "text", "completion") if reply.get(key)), "")
    note_leftovers(reply, {key, *SETTINGS}, notes, "model call's output")
    return reply_messages(reply.get(key), notes, where) if key else []


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
    return bool({"tool_calls", "toolCalls"} & set(value)) or (
        "content" in value and "choices" not in value
    )


def _listed(values: list[Any], notes: Notes, where: str) -> list[Message]:
    if values and all(isinstance(value, list) for value in values):
        notes.skip("further prompt of a batch", len(values) - 1, where)
        values = as_list(values[0])  # LangChain batches: one list for each prompt.
    if values and all(isinstance(value, str) for value in values):
        return [Message("user", value) for value in values]
    return read_messages((unpack_json(value) for value in values), notes, where)


def _listed_replies(values: list[Any], notes: Notes, where: str) -> list[Message]:
    """Take the first of alternative replies; read a list of messages whole."""
    first = values[0] if values else None
    if isinstance(first, list):
        notes.skip("further reply of a batch", len(values) - 1, where)
        return _listed_replies(first, notes, where)
    wrapped = as_map(first)
    if as_map(wrapped.get("delta")) and not wrapped.get("message"):
        wrapped = {**wrapped, "message": wrapped["delta"], "delta": None}
    if as_map(wrapped.get("message")) or (
        "text" in wrapped and not {"role", "type"} & set(wrapped)
    ):
        notes.skip("alternative reply", len(values) - 1, where)
        note_leftovers(wrapped, {"message", "text", *SETTINGS}, notes, "reply")
        inner = wrapped.get("message") or wrapped.get("text")
        return reply_messages(inner, notes, where)
    return _listed(values, notes, where)
