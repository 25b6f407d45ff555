"""What the scaffold adds: prompts, headers, steps left, costs, control tokens."""

from __future__ import annotations

import re
from collections.abc import Iterator

from memdecay.classifier.regions import Region
from memdecay.classifier.rules.conversation import Conversation, Speaker, Turn
from memdecay.classifier.rules.rule import Proposal

_BOILERPLATE = re.compile(
    r"^[ \t]*(?:\(?open file:|\(current directory|\[current working directory|bash-\$[ \t]*$|"
    r"you have \d+ (?:steps?|turns?|attempts?|chances?)|\d[\d,]* prompt tokens|tokens?: |cost: |"
    r"#{2,}\w+#{2,}[ \t]*$|terminate[ \t]*$|</?(?:output|result|stdout|stderr|observation)>[ \t]*$|"
    r"> ?actionpath|assistant[:\uff1a][ \t]*$|observation[:\uff1a][ \t]*(?:ok\.?)?[ \t]*$|"
    r"\(\d+ more lines|"
    r"\[(?:python interpreter|file: |command finished)|\[image|data:image|[^\n]{0,80}\(?omitted\b|"
    r"\.{3,}[ \t]*$|-{3,}[ \t]*$|={3,}[ \t]*$|\*{3,}[ \t]*$|<\|im_(?:start|end)\|>)",
    re.MULTILINE,
)
_RULE = re.compile(
    r"^[ \t]*(?:you (?:must|should|need to|can only)|please (?:format|always|make sure)|"
    r"note:|important:|remember)",
    re.MULTILINE,
)
_BLOB = re.compile(r"[A-Za-z0-9+/=_-]{100,}")
MIN_BLOB_CHARS = 120
MIN_EMPTY_FIELDS = 3


def boilerplate(conversation: Conversation) -> Iterator[Proposal]:
    """Propose ordinary_context for prompts, headers, counters and control tokens."""
    for turn in conversation.of(Speaker.RESULT, Speaker.ASSISTANT, Speaker.USER):
        for segment in turn.segments_with(_BOILERPLATE):
            yield Proposal(turn.index, segment.start, segment.end, Region.ORDINARY_CONTEXT, 0.9)


def boilerplate_chars(turn: Turn) -> int:
    """Return how many characters of a message are the scaffold's own lines."""
    return sum(segment.end - segment.start for segment in turn.segments_with(_BOILERPLATE))


def blobs(conversation: Conversation) -> Iterator[Proposal]:
    """Propose ordinary_context for encoded data and for dumps of empty fields."""
    for turn in conversation.turns:
        for segment in turn.segments:
            if segment.end - segment.start < MIN_BLOB_CHARS:
                continue
            text = turn.segment_text(segment)
            if text.count("=None") >= MIN_EMPTY_FIELDS or _is_encoded(text):
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
        for segment in turn.segments_with(_RULE):
            yield Proposal(turn.index, segment.start, segment.end, Region.SYSTEM_INSTRUCTION, 0.6)


def _is_encoded(text: str) -> bool:
    word = _BLOB.search(text)
    if word is None:
        return False
    return any(map(str.isdigit, word[0])) and any(map(str.isupper, word[0]))
