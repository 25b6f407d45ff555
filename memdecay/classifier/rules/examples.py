"""Worked demonstrations: inside an instruction, or as turns before the task proper."""

from __future__ import annotations

import re
from collections.abc import Iterator

from memdecay.classifier.regions import Region
from memdecay.classifier.rules.conversation import Conversation, Speaker, Turn
from memdecay.classifier.rules.rule import Proposal

_TRANSCRIPT = re.compile(
    r"^\s*(?:observation(?: \d+)?\s*[:：]|assistant\s*[:：]|> ?ok\b|action(?: \d+)?\s*:|"
    r"thought(?: \d+)?\s*:|<thought>|user:|agent:|function output:)",
    re.IGNORECASE | re.MULTILINE,
)
_ANSWERED = re.compile(r"^\s*(?:observation(?: \d+)?\s*[:：]|function output:)", re.IGNORECASE | re.MULTILINE)
_HEADING = re.compile(
    r"^[^\n]*\b(?:here is a demonstration|demonstration of|examples?\s*:|"
    r"here are (?:some|a few|\w+) examples|--- ?start of example)[^\n]*$|^---\s*$|<demonstration>",
    re.IGNORECASE | re.MULTILINE,
)
_CLOSING = re.compile(
    r"--- ?end of example[^\n]*|</demonstration>|^---\s*$|^#+ |"
    r"^(?:now|here is the task|your task|you are)\b", re.IGNORECASE | re.MULTILINE
)
MIN_ANSWERS = 2


def worked_examples(conversation: Conversation) -> Iterator[Proposal]:
    """Propose ordinary_context for transcripts of solved tasks within opening messages."""
    for turn in conversation.turns:
        if turn.is_opening and len(_ANSWERED.findall(turn.text)) >= MIN_ANSWERS:
            start, end = _stretch(turn.text)
            yield Proposal(turn.index, start, end, Region.ORDINARY_CONTEXT, 1.0)


def example_turns(conversation: Conversation) -> Iterator[Proposal]:
    """Propose ordinary_context for all turns before a second statement of the same kind of task.

    It needs later messages: without lookahead it proposes nothing.
    """
    if not conversation.lookahead:
        return
    restart = _restart(conversation)
    for turn in conversation.turns[:restart]:
        if turn.speaker is not Speaker.SYSTEM:
            yield Proposal(turn.index, 0, len(turn.text), Region.ORDINARY_CONTEXT, 2.0)


def _restart(conversation: Conversation) -> int:
    first: Turn | None = None
    restart = 0
    for turn in conversation.of(Speaker.USER):
        key = turn.text[:12].strip().lower()
        if first is None:
            first = turn
        elif len(turn.text) > 40 and len(key) >= 6 and first.text[:12].strip().lower() == key:
            restart = turn.index
    return 0 if conversation.turns and any(t.is_chat for t in conversation.turns) else restart


def _stretch(text: str) -> tuple[int, int]:
    lines = list(_TRANSCRIPT.finditer(text))
    headings = [match.end() for match in _HEADING.finditer(text, 0, lines[0].start())]
    start = headings[-1] if headings else lines[0].start()
    closing = _CLOSING.search(text, lines[-1].end())
    return start, closing.start() if closing else len(text)
