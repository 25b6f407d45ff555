"""Worked demonstrations: inside an instruction, or as turns before the task proper."""

from __future__ import annotations

import re
from collections.abc import Iterator

from memdecay.classifier.regions import Region
from memdecay.classifier.rules.conversation import Conversation, Speaker, Turn, opens_alike
from memdecay.classifier.rules.rule import Proposal

_TRANSCRIPT = re.compile(
    r"^[ \t]*(?:observation(?: \d+)?\s*[:\uff1a]|assistant\s*[:\uff1a]|> ?ok\b|action(?: \d+)?\s*:|"
    r"thought(?: \d+)?\s*:|<thought>|user:|agent:|function output:)",
    re.IGNORECASE | re.MULTILINE,
)
_END_OF_EXAMPLE = re.compile(
    r"-{3,} ?end of (?:example|demonstration)[^\n]*\n?|</demonstration>", re.IGNORECASE
)
_ANSWERED = re.compile(
    r"^[ \t]*(?:observation(?: \d+)?\s*[:\uff1a]|function output:)", re.IGNORECASE | re.MULTILINE
)
_HEADING = re.compile(
    r"^[^\n]*\b(?:here is a demonstration|demonstration of|examples?\s*:|"
    r"here are (?:some|a few|\w+) examples|-{3,} ?start of example)[^\n]*$|"
    r"^---[ \t]*$|<demonstration>",
    re.IGNORECASE | re.MULTILINE,
)
_CLOSING = re.compile(
    r"--- ?end of example[^\n]*|</demonstration>|^---[ \t]*$|^#+ |"
    r"^(?:now|here is the task|your task|you are)\b",
    re.IGNORECASE | re.MULTILINE,
)
_ANNOUNCED = re.compile(
    r"here(?:'s| is) a (?:running |worked )?(?:example|demonstration)|"
    r"-{3,} ?(?:demonstration|start of example)",
    re.IGNORECASE,
)
_SPOKEN = re.compile(r"^[ \t]*assistant\s*[:\uff1a]", re.IGNORECASE | re.MULTILINE)
MIN_ANSWERS = 2
MAX_STATEMENTS = 8


def worked_examples(conversation: Conversation) -> Iterator[Proposal]:
    """Propose ordinary_context for transcripts of solved tasks within opening messages."""
    for turn in conversation.turns:
        if not turn.is_opening:
            continue
        if announced := _ANNOUNCED.search(turn.text):
            end = _closing(turn.text, announced.end())
            yield Proposal(turn.index, announced.start(), end, Region.ORDINARY_CONTEXT, 1.0)
        elif _is_transcript(turn.text):
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
    restart = 0
    statements: list[Turn] = []
    for turn in conversation.of(Speaker.USER):
        if any(opens_alike(turn.text, earlier.text) for earlier in statements[:MAX_STATEMENTS]):
            restart = turn.index
        statements.append(turn)
    return restart


def _is_transcript(text: str) -> bool:
    answers = len(_ANSWERED.findall(text))
    return answers >= MIN_ANSWERS or (answers > 0 and bool(_SPOKEN.search(text)))


def _closing(text: str, position: int) -> int:
    closing = _END_OF_EXAMPLE.search(text, position)
    return closing.end() if closing else len(text)


def _stretch(text: str) -> tuple[int, int]:
    lines = list(_TRANSCRIPT.finditer(text))
    headings = [match.end() for match in _HEADING.finditer(text, 0, lines[0].start())]
    start = headings[-1] if headings else lines[0].start()
    closing = _CLOSING.search(text, lines[-1].end())
    return start, closing.start() if closing else len(text)
