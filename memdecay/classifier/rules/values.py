"""Results that are values and not text: numbers, keys, digests, whatever was computed."""

from __future__ import annotations

import re
from collections.abc import Iterator

from memdecay.classifier.regions import Region
from memdecay.classifier.rules.conversation import Conversation, Speaker, Turn
from memdecay.classifier.rules.lengths import is_long
from memdecay.classifier.rules.rule import Proposal

MAX_VALUE_CHARS = 4000
MAX_COMPUTED_CHARS = 1500
MIN_WORD_CHARS = 48

_COMPUTES = re.compile(
    r"\b(?:md5|sha\d*|ck|b2)sum\b|\b(?:wc|awk|cmp|bc)\b|(?<!git )\bdiff -|\buniq -c\b|\bdu -"
)


def unbroken_values(conversation: Conversation) -> Iterator[Proposal]:
    """Propose tool_summary for a result of few, very long words: however long, it is one value.

    It has to outvote the rules that take length and encoded data for bulk.
    """
    for turn in conversation.of(Speaker.RESULT):
        if is_unbroken(turn):
            yield Proposal(turn.index, 0, len(turn.text), Region.TOOL_SUMMARY, 2.5)


def computed_values(conversation: Conversation) -> Iterator[Proposal]:
    """Propose tool_summary for what a command computed, up to a page: it stands nowhere else."""
    for turn in conversation.of(Speaker.RESULT):
        is_page = len(turn.text) > MAX_COMPUTED_CHARS
        if is_long(turn) and not is_page and _COMPUTES.search(turn.asked):
            yield Proposal(turn.index, 0, len(turn.text), Region.TOOL_SUMMARY, 0.9)


def is_unbroken(turn: Turn) -> bool:
    """Tell whether more than half of a long result is words that nobody reads: digits, keys."""
    if not is_long(turn) or len(turn.text) > MAX_VALUE_CHARS:
        return False
    return 2 * sum(map(len, filter(_is_value, turn.text.split()))) > len(turn.text)


def _is_value(word: str) -> bool:
    return len(word) >= MIN_WORD_CHARS and "/" not in word[:MIN_WORD_CHARS]
