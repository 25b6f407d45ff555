"""What the scaffold adds: prompts, headers, steps left, costs, control tokens."""

from __future__ import annotations

import re
from collections.abc import Iterator

from memdecay.classifier.regions import Region
from memdecay.classifier.rules.conversation import Conversation, Speaker
from memdecay.classifier.rules.rule import Proposal

_BOILERPLATE = re.compile(
    r"^\s*(?:\(?open file:|\(current directory|\[current working directory|bash-\$\s*$|"
    r"you have \d+ (?:steps?|turns?|attempts?|chances?)|\d[\d,]* prompt tokens|tokens?: |cost: |"
    r"#{2,}\w+#{2,}\s*$|terminate\s*$|</?(?:output|result|stdout|stderr|observation)>\s*$|"
    r"> ?actionpath|assistant[:：]\s*$|observation[:：]\s*(?:ok\.?)?\s*$|\(\d+ more lines|"
    r"\[(?:python interpreter|file: |command finished)|\[image|data:image|[^\n]{0,80}\(?omitted\b|"
    r"\.{3,}\s*$|-{3,}\s*$|={3,}\s*$|\*{3,}\s*$|<\|im_(?:start|end)\|>)",
    re.IGNORECASE,
)
MIN_BLOB_CHARS = 120
MIN_EMPTY_FIELDS = 3
_BLOB = re.compile(r"(?=[\w+/=-]*\d)(?=[\w+/=-]*[A-Z])[A-Za-z0-9+/=_-]{100,}")
_RULE = re.compile(
    r"^\s*(?:you (?:must|should|need to|can only)|please (?:format|always|make sure)|"
    r"note:|important:|remember)",
    re.IGNORECASE,
)


def is_boilerplate(text: str) -> bool:
    """Tell whether a line is the scaffold's own: a prompt, a header, a counter, a control token."""
    return _BOILERPLATE.match(text) is not None


def boilerplate(conversation: Conversation) -> Iterator[Proposal]:
    """Propose ordinary_context for prompts, headers, counters and control tokens."""
    for turn in conversation.of(Speaker.RESULT, Speaker.ASSISTANT, Speaker.USER):
        for segment in turn.segments:
            if is_boilerplate(turn.segment_text(segment)):
                yield Proposal(turn.index, segment.start, segment.end, Region.ORDINARY_CONTEXT, 0.9)


def blobs(conversation: Conversation) -> Iterator[Proposal]:
    """Propose ordinary_context for encoded data and for dumps of empty fields."""
    for turn in conversation.turns:
        for segment in turn.segments:
            if segment.end - segment.start < MIN_BLOB_CHARS:
                continue
            text = turn.segment_text(segment)
            if _BLOB.search(text) or text.count("=None") >= MIN_EMPTY_FIELDS:
                yield Proposal(turn.index, segment.start, segment.end, Region.ORDINARY_CONTEXT, 1.5)


def preamble(conversation: Conversation) -> Iterator[Proposal]:
    """Propose ordinary_context for what tools print before anybody has spoken."""
    for turn in conversation.turns:
        if turn.speaker in (Speaker.USER, Speaker.ASSISTANT):
            return
        if turn.speaker is Speaker.RESULT:
            yield Proposal(turn.index, 0, len(turn.text), Region.ORDINARY_CONTEXT, 1.5)


def state_rules(conversation: Conversation) -> Iterator[Proposal]:
    """Propose system_instruction where a scaffold's answer tells the agent what it must do."""
    for turn in conversation.of(Speaker.RESULT):
        for segment in turn.segments:
            if _RULE.match(turn.segment_text(segment)):
                yield Proposal(turn.index, segment.start, segment.end, Region.SYSTEM_INSTRUCTION, 0.6)
