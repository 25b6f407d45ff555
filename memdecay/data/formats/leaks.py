"""Text that tells a model how its run ends: stop marks of simulated users, rewards, answers."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace

from memdecay.data.formats.report import Notes
from memdecay.data.trace import Message

STOP_MARKS = ("###STOP###", "###TRANSFER###", "###OUT-OF-SCOPE###")
# Lines by which environments and logs judge a run, not every mention of a reward.
_VERDICT = re.compile(
    r"\breward\s*[=:]\s*-?\d|^\W*(?:correct|gold|expected|ground[- ]truth) answer\s*:",
    re.IGNORECASE | re.MULTILINE,
)


def without_stop_marks(messages: Iterable[Message], notes: Notes) -> list[Message]:
    """Take stop marks out of user messages; a message of nothing else is left out and noted."""
    kept = []
    for message in messages:
        if not _num_marks(message):
            kept.append(message)
            continue
        text = message.content
        for mark in STOP_MARKS:
            notes.repair("stop mark of the simulated user removed", text.count(mark))
            text = text.replace(mark, "")
        if text.strip():
            kept.append(replace(message, content=text.rstrip()))
        else:
            notes.skip("user message of a stop mark only")
    return kept


def notice_leaks(messages: Iterable[Message], notes: Notes) -> None:
    """Count what stays in the text although it tells how the run ends."""
    for message in messages:
        notes.notice("stop mark in a labelled text kept", _num_marks(message))
        if message.role != "assistant":
            verdicts = sum(1 for _ in _VERDICT.finditer(message.content))
            notes.notice("reward or right answer inside the text kept", verdicts)


def _num_marks(message: Message) -> int:
    if message.role != "user" or "###" not in message.content:
        return 0
    return sum(message.content.count(mark) for mark in STOP_MARKS)
