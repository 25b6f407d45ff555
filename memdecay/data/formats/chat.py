"""Chat messages of any vendor's spelling, as messages of ours."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from memdecay.data.formats.blocks import Parts, split_blocks
from memdecay.data.formats.calls import read_call
from memdecay.data.formats.items import item_reader, read_reasoning
from memdecay.data.formats.leftovers import note_leftovers
from memdecay.data.formats.report import Notes
from memdecay.data.formats.thoughts import THOUGHT_KEYS, thoughts_of
from memdecay.data.formats.tool_errors import error_fields, with_error
from memdecay.data.formats.values import as_list, as_map, as_str, first_str, unpack_json
from memdecay.data.trace import Message

ROLES = {
    "human": "user",
    "usermessage": "user",
    "humanmessage": "user",
    "ai": "assistant",
    "gpt": "assistant",
    "chatgpt": "assistant",
    "bing": "assistant",
    "bard": "assistant",
    "bot": "assistant",
    "model": "assistant",
    "agent": "assistant",
    "gemini": "assistant",
    "assistantmessage": "assistant",
    "aimessage": "assistant",
    "developer": "system",
    "systemmessage": "system",
    "function": "tool",
    "functionmessage": "tool",
    "function_response": "tool",
    "functionexecutionresultmessage": "tool",
    "toolmessage": "tool",
    "toolresult": "tool",
    "tool_response": "tool",
    "tool_result": "tool",
    "observation": "tool",
    "ipython": "tool",
}
_KEPT_FIELDS = ("name", "agent", "kind")
_RESULT_ID_KEYS = ("tool_call_id", "toolCallId", "call_id", "tool_use_id")
_CONTENT_KEYS = ("content", "parts", "value", "text", "message", "output", "result")
_ROLE_KEYS = ("role", "from", "type", "author", "source")
_RESULT_NAME_KEYS = ("name", "toolName", "tool_name", "function")
_READ = {*_ROLE_KEYS, *_RESULT_ID_KEYS, *_KEPT_FIELDS, *THOUGHT_KEYS}
_READ |= {"tool_calls", "toolCalls", "invalid_tool_calls", "function_call", "tool_call_ids"}
_READ |= {"refusal", "audio", "additional_kwargs", "error", "requestor"}


def read_messages(raws: Iterable[object], notes: Notes, where: str = "") -> list[Message]:
    """Read chat messages and OpenAI Responses items, in order.

    Args:
        raws: Messages of OpenAI's, Anthropic's, LangChain's or a similar shape.
        notes: Counts what is no message.
        where: The place in the file, for the report.

    Returns:
        The messages; one that holds several tool results becomes several.
    """
    messages: list[Message] = []
    reasoning: list[str] = []
    for raw in raws:
        if not isinstance(raw, Mapping):
            notes.skip("message that is no object", where=where)
            continue
        if "role" not in raw and raw.get("type") == "reasoning":
            reasoning += read_reasoning(raw, notes)
            continue
        if raw.get("object") == "response" and isinstance(raw.get("output"), list):
            read = read_messages(raw["output"], notes, where)  # A whole answer of Responses.
        elif "role" not in raw and (reader := item_reader(raw)):
            read = reader(raw, notes)
        else:
            read = _read_message(raw, notes, where)
        if reasoning and read:
            read[0] = _with_reasoning(read[0], reasoning)
            reasoning = []
        messages += read
    if reasoning:
        messages.append(_with_reasoning(Message("assistant"), reasoning))
    return _named_results(messages, notes, where)


def _named_results(messages: list[Message], notes: Notes, where: str) -> list[Message]:
    """Make messages under the name of a tool that was called before tool messages."""
    called: set[str] = set()
    for index, message in enumerate(messages):
        called |= {as_str(as_map(call.get("function")).get("name")) for call in message.tool_calls}
        if message.role in called and message.role not in _PLAIN_ROLES:
            notes.repair("tool result under another role, made a tool message", where=where)
            extra = (("name", message.role), *message.extra)
            messages[index] = Message("tool", message.content, message.tool_calls, extra)
    return messages


def role_of(name: str) -> str:
    """Return the usual name of a role; a free-text name stays as it is."""
    return ROLES.get(name.lower(), name.lower() if name.lower() in _PLAIN_ROLES else name)


_PLAIN_ROLES = {"system", "user", "assistant", "tool"}


def _read_message(raw: Mapping[str, Any], notes: Notes, where: str) -> list[Message]:
    raw = _unwrap(raw)
    content_key = _content_key(raw)
    parts = split_blocks(raw.get(content_key), notes)
    calls = _all_calls(raw, parts, notes)
    role = _role(raw, bool(calls), notes, where)
    extra = _extra(raw, role, parts.reasoning, notes)
    messages = list(parts.results)
    text = _text(_with_spoken(parts.text, raw), role, raw, notes)
    said = [text, *(result.content for result in parts.results), *map(str, extra.values())]
    for fields in (raw, as_map(raw.get("additional_kwargs"))):
        note_leftovers(fields, {content_key, *_READ}, notes, "message", said)
    if text or calls or not messages:
        message = Message(role, text, tuple(calls), tuple(extra.items()))
        # Results follow the calls and the text before them; a user's text follows the results.
        messages.insert(0 if calls or parts.text_first else len(messages), message)
    return messages


def _text(text: str, role: str, raw: Mapping[str, Any], notes: Notes) -> str:
    if role == "tool" or not text:
        return with_error(text, raw)
    if raw.get("error"):
        notes.skip("error beside the text of a message that is no tool's")
    return text


def _unwrap(raw: Mapping[str, Any]) -> Mapping[str, Any]:
    """Open LangChain's serialized messages and envelopes with one message inside."""
    if "kwargs" in raw and isinstance(raw.get("id"), list):
        name = as_str(raw["id"][-1]) if raw["id"] else ""
        return {"role": name.removesuffix("Chunk"), **as_map(raw["kwargs"])}
    if "data" in raw and as_str(raw.get("type")) and as_map(raw["data"]):
        return {"role": raw["type"], **as_map(raw["data"])}
    for key in ("message", "content"):
        inner = as_map(raw.get(key))
        if "role" not in raw and ("role" in inner or "parts" in inner):
            return inner
    return raw


def _content_key(raw: Mapping[str, Any]) -> str:
    return next((key for key in _CONTENT_KEYS if raw.get(key) not in (None, "", [])), "content")


def _with_spoken(text: str, raw: Mapping[str, Any]) -> str:
    """Add what is said outside of the content: a refusal, or the words of an audio."""
    fields = (raw, as_map(raw.get("additional_kwargs")))
    spoken = [as_str(part.get("refusal")) for part in fields]
    spoken += [as_str(as_map(part.get("audio")).get("transcript")) for part in fields]
    pieces = [text, *(piece for piece in dict.fromkeys(spoken) if piece not in text)]
    return "\n".join(piece for piece in pieces if piece)


def _all_calls(raw: Mapping[str, Any], parts: Parts, notes: Notes) -> list[dict[str, Any]]:
    """Return the calls in the content and beside it; LangChain has some in both places."""
    known = {call["id"] for call in parts.calls if call["id"]}
    beside = _structured_calls(raw, notes)
    return [*parts.calls, *(call for call in beside if call["id"] not in known)]


def _structured_calls(raw: Mapping[str, Any], notes: Notes) -> list[dict[str, Any]]:
    more = as_map(raw.get("additional_kwargs"))
    keys = ("tool_calls", "toolCalls")
    given = next((part[key] for part in (raw, more) for key in keys if part.get(key)), None)
    listed = unpack_json(given)
    listed = [listed] if isinstance(listed, Mapping) else listed
    if listed and not isinstance(listed, list):
        notes.skip("tool calls that are no list")
    raws = [*as_list(listed), *as_list(raw.get("invalid_tool_calls"))]
    legacy = unpack_json(raw.get("function_call") or more.get("function_call"))
    if legacy and not raws:
        raws.append(legacy)
    return [call for item in raws if (call := read_call(item, notes)) is not None]


def _role(raw: Mapping[str, Any], has_calls: bool, notes: Notes, where: str) -> str:
    name = first_str(raw, _ROLE_KEYS)
    role = role_of(name)
    if first_str(raw, _RESULT_ID_KEYS) and not has_calls and role != "tool":
        notes.repair("tool result under another role, made a tool message", where=where)
        return "tool"
    if not name or role == "message":
        notes.repair("message without a role", where=where)
        return "assistant" if has_calls else "user"
    return role


def _extra(raw: Mapping[str, Any], role: str, reasoning: list[str], notes: Notes) -> dict[str, Any]:
    extra: dict[str, Any] = {key: raw[key] for key in _KEPT_FIELDS if as_str(raw.get(key))}
    if role == "tool":
        call_id = first_str(raw, _RESULT_ID_KEYS)
        listed = as_list(raw.get("tool_call_ids"))
        call_id = call_id or (as_str(listed[0]) if listed else "")
        call_id = call_id or (first_str(raw, ("id",)) if "requestor" in raw else "")
        extra |= {"tool_call_id": call_id} if call_id else {}
        name = first_str(raw, _RESULT_NAME_KEYS)
        extra |= {"name": name} if name else {}
        extra |= error_fields(raw)
    thoughts = thoughts_of(raw, notes) or thoughts_of(as_map(raw.get("additional_kwargs")), notes)
    thoughts = list(dict.fromkeys([*thoughts, *reasoning]))
    return extra | ({"reasoning_content": "\n".join(thoughts)} if thoughts else {})


def _with_reasoning(message: Message, reasoning: list[str]) -> Message:
    extra = dict(message.extra)
    texts = [*reasoning, as_str(extra.get("reasoning_content"))]
    extra["reasoning_content"] = "\n".join(text for text in texts if text)
    return Message(message.role, message.content, message.tool_calls, tuple(extra.items()))
