"""OpenAI chat messages: one conversation a line, a list of them, or the bare message list."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from memdecay.data.formats.base import GENERIC, NO, Draft, Format, conversations_of, guarded
from memdecay.data.formats.chat import read_messages
from memdecay.data.formats.exchange import reply_messages, system_messages
from memdecay.data.formats.facts import run_facts
from memdecay.data.formats.report import Notes
from memdecay.data.formats.sample import Sample
from memdecay.data.formats.source import Record, Source
from memdecay.data.formats.values import as_list, as_map, as_str, first_str, maps, unpack_json
from memdecay.data.trace import Message

_SYSTEM_KEYS = ("system", "system_prompt", "systemInstruction", "system_instruction")
_LIST_KEYS = ("messages", "contents", "conversation", "traj", "chat", "dialog", "dialogue")
_ENVELOPES = ("data", "body", "request", "input", "inputs", "kwargs", "sample", "example")
_REPLY_KEYS = ("response", "completion", "choices", "output", "outputs", "answer_message")


def score(sample: Sample) -> int:
    """Tell whether objects hold a message list or are messages themselves."""
    return GENERIC if any(_is_chat(value) for value in sample.values) else NO


def read(source: Source) -> Iterator[Draft]:
    """Yield a conversation for each message list; loose messages together make one."""
    loose: list[Record] = []
    for group in source.groups():
        if group.is_list:
            for part in conversations_of(group, _is_loose_message, _is_conversation):
                yield from guarded(_conversations, part, source.notes)
            continue
        for part in group.records:
            if _is_loose_message(part.value):
                loose.append(part)
            else:
                yield from guarded(_conversations, part, source.notes)
    if loose:
        whole = Record([part.value for part in loose], loose[0].where)
        yield from guarded(_conversations, whole, source.notes)


def _conversations(record: Record, notes: Notes) -> Iterator[Draft]:
    if isinstance(record.value, list):
        yield Draft(read_messages(record.value, notes, record.where))
        return
    levels = _levels(as_map(record.value))
    if not levels:
        notes.skip("record without messages", where=record.where)
        return
    owner, key = levels[-1]
    messages = _system(owner, notes) + read_messages(
        as_list(unpack_json(owner[key])), notes, record.where
    )
    reply, replied, reply_key = _reply((record.value, owner), messages, notes)
    facts: dict[str, Any] = {}
    for level, inner in reversed(levels):
        used = {inner, *(_SYSTEM_KEYS if level is owner else ())}
        outer = run_facts(level, used | ({reply_key} if level is replied else set()))
        meta = {**facts.get("meta", {}), **outer.get("meta", {})}
        facts |= outer | ({"meta": meta} if meta else {})
    yield Draft(messages + reply, facts, id=first_str(record.value, ("id",)))


def _levels(record: Mapping[str, Any], depth: int = 0) -> list[tuple[Mapping[str, Any], str]]:
    """Find the message list, in envelopes up to three deep.

    Returns:
        The objects around it from the outside in, each with the key that leads on; empty if there
        is none.
    """
    for key in _LIST_KEYS:
        listed = unpack_json(record.get(key))
        is_chat = any(key != "contents" or "parts" in item for item in maps(listed))
        if is_chat:
            return [(record, key)]
    for key in _ENVELOPES:
        inner = as_map(unpack_json(record.get(key)))
        if inner and depth < 3 and (levels := _levels(inner, depth + 1)):
            return [(record, key), *levels]
    return []


def _is_conversation(value: object) -> bool:
    return isinstance(value, list) or _has_messages(value)


def _has_messages(value: object) -> bool:
    return bool(_levels(as_map(value)))


def _system(owner: Mapping[str, Any], notes: Notes) -> list[Message]:
    return system_messages(owner, _SYSTEM_KEYS, notes)


def _reply(
    holders: tuple[Mapping[str, Any], ...], messages: list[Message], notes: Notes
) -> tuple[list[Message], Mapping[str, Any], str]:
    """Return the answer that a request log holds beside the messages, its holder and its key.

    After an assistant's message there is none: another text may be a gold answer.
    """
    if messages and messages[-1].role == "assistant":
        return [], {}, ""
    for holder in holders:
        for key in _REPLY_KEYS:
            # What is no reply stays among the facts.
            if reply_messages(holder.get(key), Notes()):
                return reply_messages(holder[key], notes), holder, key
    return [], {}, ""


def _is_chat(value: object) -> bool:
    if isinstance(value, list):
        return any(_is_chat(item) for item in value[:20])
    record = as_map(value)
    if _is_loose_message(value):
        return True
    return _has_messages(record)


def _is_loose_message(value: object) -> bool:
    """Tell a message (or a Responses item) from an object that holds messages."""
    record = as_map(value)
    if any(isinstance(record.get(key), list) for key in _LIST_KEYS):
        return False
    if as_str(record.get("role")) and {"content", "tool_calls", "parts", "function_call"} & set(
        record
    ):
        return True
    return as_str(record.get("type")) in ("function_call", "function_call_output")


FORMAT = Format("openai-chat", "OpenAI chat messages", score, read, merges=True)
