"""From a reader's draft to a clean trace."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from memdecay.data.formats.base import Draft
from memdecay.data.formats.calls import pair_calls
from memdecay.data.formats.leaks import notice_leaks, without_stop_marks
from memdecay.data.formats.report import Notes
from memdecay.data.formats.text import clean_text
from memdecay.data.formats.values import MAX_DEPTH, as_map, dump_json, unpack_json
from memdecay.data.trace import Message, Span, Trace

_ESCAPED = re.compile(r"\\u(?:0000|00[19]b|d[89a-f])", re.IGNORECASE)


def finish_draft(draft: Draft, trace_id: str, notes: Notes) -> Trace | None:
    """Clean every text of a draft, pair its calls and make it a trace.

    Stop marks of simulated users are taken out too, but not of labelled traces, whose labels (and
    those of a second annotator) lie on the text as it is.

    Returns:
        The trace, or None (noted) for a conversation without messages.
    """
    found = draft.messages
    if not draft.spans:
        found = without_stop_marks(found, notes)
    if not found:
        notes.skip("conversation without messages", where=draft.where)
        return None
    notice_leaks(found, notes)
    messages, spans = [], []
    for index, message in enumerate(found):
        own = [span for span in draft.spans if span.message == index]
        content, moved = _clean_content(message.content, own, notes)
        spans += moved
        messages.append(_clean_message(message, content, notes))
    extra = clean_value(draft.extra, notes)
    return Trace(
        id=clean_text(trace_id, notes),
        messages=pair_calls(messages, notes),
        source=clean_text(draft.source, notes),
        spans=tuple(spans),
        extra=tuple(
            (key, value) for key, value in extra.items() if value not in (None, "", {}, [])
        ),
    )


def clean_value(value: Any, notes: Notes, depth: int = 0) -> Any:
    """Clean the texts inside a JSON value; what is nested too deeply is left out and noted."""
    if isinstance(value, str):
        return clean_text(value, notes)
    if depth >= MAX_DEPTH:
        notes.skip("value nested too deeply")
        return None
    if isinstance(value, Mapping):
        return {
            clean_text(str(key), notes): clean_value(item, notes, depth + 1)
            for key, item in value.items()
        }
    if isinstance(value, list | tuple):
        return [clean_value(item, notes, depth + 1) for item in value]
    return value


def _clean_message(message: Message, content: str, notes: Notes) -> Message:
    role = clean_text(message.role, notes)
    if not role:
        notes.repair("message without a role")
        role = "assistant" if message.tool_calls else "user"
    return Message(
        role=role,
        content=content,
        tool_calls=tuple(_clean_call(call, notes) for call in message.tool_calls),
        extra=tuple(clean_value(dict(message.extra), notes).items()),
    )


def _clean_call(call: Mapping[str, Any], notes: Notes) -> Any:
    """Clean a call, also what hides behind escapes in its JSON arguments."""
    cleaned = clean_value(dict(call), notes)
    function = as_map(cleaned.get("function"))
    arguments = function.get("arguments")
    if isinstance(arguments, str) and _ESCAPED.search(arguments):
        value = unpack_json(arguments)
        plain = clean_value(value, notes)
        if plain != value:
            return {**cleaned, "function": {**function, "arguments": dump_json(plain)}}
    return cleaned


def _clean_content(content: str, spans: list[Span], notes: Notes) -> tuple[str, list[Span]]:
    """Clean a text piece by piece between its labels, so that they move along with it."""
    if not spans:
        return clean_text(content, notes), []
    pieces: list[str] = []
    moved = []
    end = length = 0
    for span in spans:
        pieces.append(clean_text(content[end : span.start], notes))
        start = length + len(pieces[-1])
        pieces.append(clean_text(content[span.start : span.end], notes))
        length, end = start + len(pieces[-1]), span.end
        moved.append(Span(span.message, start, length, span.region))
    pieces.append(clean_text(content[end:], notes))
    return "".join(pieces), [span for span in moved if span.end > span.start]
