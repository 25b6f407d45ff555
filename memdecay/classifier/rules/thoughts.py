"""What an agent says beside its actions: decisions, and retelling of what it saw."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator

from memdecay.classifier.regions import Region
from memdecay.classifier.rules.conversation import Conversation, Speaker, Turn
from memdecay.classifier.rules.rule import Proposal
from memdecay.classifier.rules.segments import Segment

MIN_LONG_THOUGHT_CHARS = 250

LONGEST_THOUGHT_CHARS = 2500

MIN_DATA_SEGMENTS = 4

_FRAME = re.compile(r"\s*(?:Traceback \(|File \".*\", line \d+|at [\w.$<>]+\()")
_DATA = re.compile(
    r"\s*(?:Traceback \(|File \".*\", line \d+|at [\w.$<>]+\(|\"[^\"\n]{1,40}\"\s*:|"
    r"[\]}]+,?\s*$|[{\[]\s*$|\^+\s*$)"
)
_CHOICE = re.compile(
    r"\b(?:let'?s|let me|I(?:'ll| will| need| should| can| must|'m going| am going)|"
    r"need(?:s)? to|should|next|now I|first|then I|we (?:need|can|should|will)|"
    r"so |therefore|thus|because|plan|fix|must be|the (?:issue|problem|error|root cause|answer) is|"
    r"seems|suggests|means|instead|try)\b|接下来|需要|应该|因此",
    re.IGNORECASE,
)
_RETELLING = re.compile(
    r"^\s*(?:thought:\s*)?(?:(?:okay|ok|alright)[,.]? )?"
    r"(?:this (?:is|appears to be|seems to be) the\b|"
    r"the (?:pr|issue|task|problem)(?: description)? (?:says|mentions|states|described?|is about)|"
    r"the (?:search|page|screenshot|output|result|observation|file|"
    r"command|dropdown|list)\b[^.]*\b(?:has|have|was|were|is|are|shows?|provides?|contains?|"
    r"lists?|mentions?)\b|(?:we|I) (?:are|have|see|saw|can see|was|were)\b|now that\b)",
    re.IGNORECASE,
)
_QUOTATION = re.compile(r"\s*(?:[\"\u201c`>][^\n]*[\"\u201d`.]|[<`(]?https?://\S+)\s*$")
_THOUGHT_TAG = re.compile(
    r"^\s*(?:thoughts?(?: \d+)?|reason(?:ing)?|plan)\s*[:\uff1a]|^\s*<think", re.IGNORECASE
)


def thoughts(conversation: Conversation) -> Iterator[Proposal]:
    """Propose key_decision for the prose around a call, and for whatever is marked as a thought."""
    for turn in conversation.of(Speaker.ASSISTANT):
        is_marked = bool(_THOUGHT_TAG.match(turn.text))
        if not (turn.acts or is_marked or (turn.parts and not turn.is_chat)):
            continue
        for start, end in prose(turn):
            yield Proposal(turn.index, start, end, Region.KEY_DECISION, 0.6)


def decision_words(conversation: Conversation) -> Iterator[Proposal]:
    """Propose key_decision where words choose, conclude or plan."""
    for turn, segment, text in _prose_segments(conversation):
        if _CHOICE.search(text):
            yield Proposal(turn.index, segment.start, segment.end, Region.KEY_DECISION, 0.4)


def retelling(conversation: Conversation) -> Iterator[Proposal]:
    """Propose ordinary_context for sentences of a long thought that retell and choose nothing.

    In a very long one, which thinks aloud, for all that choose nothing.
    """
    for turn, segment, text in _prose_segments(conversation):
        is_last = segment.end >= len(turn.text)
        if len(turn.text) < MIN_LONG_THOUGHT_CHARS or is_last:
            continue
        is_aloud = len(turn.text) > LONGEST_THOUGHT_CHARS or _RETELLING.match(text)
        is_retold = is_aloud and not _CHOICE.search(text)
        if is_retold or _QUOTATION.match(text):
            yield Proposal(turn.index, segment.start, segment.end, Region.ORDINARY_CONTEXT, 1.0)


def quoted_data(conversation: Conversation) -> Iterator[Proposal]:
    """Propose ordinary_context for stack frames and records that an agent's words are mixed with.

    Where several agents talk, one's page, ledger or traceback stands in its own message.
    """
    for turn in conversation.of(Speaker.ASSISTANT):
        data = [
            segment
            for segment in turn.segments
            if _DATA.match(text := turn.segment_text(segment))
            and (not turn.is_chat or _FRAME.match(text))
        ]
        if len(data) < MIN_DATA_SEGMENTS or turn.acts:
            continue
        inside = [(part.start, part.end) for part in turn.parts]
        for segment in data:
            if not any(start <= segment.start < end for start, end in inside):
                yield Proposal(turn.index, segment.start, segment.end, Region.ORDINARY_CONTEXT, 1.6)


def prose(turn: Turn) -> Iterator[tuple[int, int]]:
    """Yield the stretches of an assistant's text that are no call, code or final answer."""
    position = 0
    for part in turn.parts:
        if part.start > position:
            yield position, part.start
        position = part.end
    if position < len(turn.text):
        yield position, len(turn.text)


def _prose_segments(conversation: Conversation) -> Iterator[tuple[Turn, Segment, str]]:
    for turn in conversation.of(Speaker.ASSISTANT):
        if turn.is_chat and not turn.acts:
            continue
        starts = [part.start for part in turn.parts]
        for segment in turn.segments:
            place = bisect_right(starts, segment.start) - 1
            if place < 0 or turn.parts[place].end <= segment.start:
                yield turn, segment, turn.segment_text(segment)
