"""Marks by which a simulated user ends a conversation; they would tell a model how it ends."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from memdecay.data.formats.report import Notes
from memdecay.data.trace import Message

STOP_MARKS = ("###STOP###", "###TRANSFER###", "###OUT-OF-SCOPE###")


def without_stop_marks(messages: Iterable[Message], notes: Notes) -> list[Message]:
    """Take stop marks out of user messages; a message of nothing else is left out and noted."""
    kept = []
    for message in messages:
        if message.role != "user" or "###" not in message.content:
            kept.append(message)
            continue
        text = message.content
        for mark in STOP_MARKS:
            notes.repair("stop mark of the simulated user removed", text.count(mark))
            text = text.replace(mark, "")
        if text == message.content:
            kept.append(message)
        elif text.strip():
            kept.append(replace(message, content=text.rstrip()))
        else:
            notes.skip("user message of a stop mark only")
    return kept
