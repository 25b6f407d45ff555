"""What tools return: the decisive lines, and the bulk around them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

from memdecay.classifier.regions import Region
from memdecay.classifier.rules.conversation import Conversation, Speaker, Turn
from memdecay.classifier.rules.rule import Proposal

SHORT_RESULT_CHARS = 260
HEAD_CHARS = 220

_TERM = re.compile(r"[A-Za-z_][\w-]{3,}|\d[\w.-]{2,}")
_COMMON = frozenset(
    "name arguments type function tool_call query input command text value true false null path "
    "file http https html json python python3 import from self print return with that this what "
    "when which where search click action observation thought bash echo grep head tail find "
    "sed cat view create".split()
)


def short_results(conversation: Conversation) -> Iterator[Proposal]:
    """Propose tool_summary for the whole of a short result."""
    for turn in conversation.of(Speaker.RESULT):
        if len(turn.text) <= SHORT_RESULT_CHARS:
            yield Proposal(turn.index, 0, len(turn.text), Region.TOOL_SUMMARY, 0.8)


def result_bulk(conversation: Conversation) -> Iterator[Proposal]:
    """Propose ordinary_context for long results, the surer the longer and the further in."""
    for turn in conversation.of(Speaker.RESULT):
        length = len(turn.text)
        if length <= SHORT_RESULT_CHARS:
            continue
        base = 0.3 if length < 700 else 0.5 if length < 2000 else 0.7
        yield Proposal(turn.index, 0, length, Region.ORDINARY_CONTEXT, base)


def result_heads(conversation: Conversation) -> Iterator[Proposal]:
    """Propose tool_summary for the beginning of a long result."""
    for turn in conversation.of(Speaker.RESULT):
        if len(turn.text) > SHORT_RESULT_CHARS:
            yield Proposal(turn.index, 0, HEAD_CHARS, Region.TOOL_SUMMARY, 0.5)


def asked_terms(conversation: Conversation) -> Iterator[Proposal]:
    """Propose tool_summary for the few pieces of a long result that hold the call's own words."""
    for turn in conversation.of(Speaker.RESULT):
        if len(turn.text) <= SHORT_RESULT_CHARS or not turn.asked:
            continue
        asked = terms(turn.asked) - _COMMON
        if asked:
            yield from _matching(turn, asked)


def _matching(turn: Turn, asked: set[str]) -> Iterator[Proposal]:
    found = [terms(turn.segment_text(segment)) & asked for segment in turn.segments]
    counts = Counter(term for hits in found for term in hits)
    limit = max(2, len(found) // 5)
    for segment, hits in zip(turn.segments, found, strict=True):
        if any(counts[term] <= limit for term in hits):
            yield Proposal(turn.index, segment.start, segment.end, Region.TOOL_SUMMARY, 0.5)


def terms(text: str) -> set[str]:
    """Return the words and numbers of a text that may identify something, in lower case."""
    return {term.lower() for term in _TERM.findall(text)}
