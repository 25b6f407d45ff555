"""Calls that an assistant writes as text, and the code it writes."""

from __future__ import annotations

from collections.abc import Iterator

from memdecay.classifier.regions import Region
from memdecay.classifier.rules.conversation import Conversation, Speaker, Turn
from memdecay.classifier.rules.parts import Part, PartKind
from memdecay.classifier.rules.rule import Proposal

MAX_BODY_CHARS = 900
HEAD_CHARS = 160


def text_calls(conversation: Conversation) -> Iterator[Proposal]:
    """Propose tool_summary for calls as text; of a long body only its head."""
    for turn, part in _parts(conversation, PartKind.CALL):
        yield from _body(turn, part, 0.9)


def code_bodies(conversation: Conversation) -> Iterator[Proposal]:
    """Propose tool_summary for the head of code in a task run and ordinary_context for the rest.

    Code beside a call is quoted or thought aloud: ordinary_context.
    """
    for turn, part in _parts(conversation, PartKind.CODE):
        if turn.calls_in_text:
            yield Proposal(turn.index, part.start, part.end, Region.ORDINARY_CONTEXT, 0.5)
        elif not turn.is_chat:
            yield from _body(turn, part, 0.5)


def final_answers(conversation: Conversation) -> Iterator[Proposal]:
    """Propose key_decision for an answer marked as final."""
    for turn, part in _parts(conversation, PartKind.FINAL):
        yield Proposal(turn.index, part.start, part.end, Region.KEY_DECISION, 0.9)


def _parts(conversation: Conversation, kind: PartKind) -> Iterator[tuple[Turn, Part]]:
    for turn in conversation.of(Speaker.ASSISTANT):
        for part in turn.parts:
            if part.kind is kind:
                yield turn, part


def _body(turn: Turn, part: Part, confidence: float) -> Iterator[Proposal]:
    length = part.end - part.start
    head = part.end if length <= MAX_BODY_CHARS else _line_end(turn.text, part.start + HEAD_CHARS)
    head = min(head, part.end)
    yield Proposal(turn.index, part.start, head, Region.TOOL_SUMMARY, confidence)
    if head < part.end:
        yield Proposal(turn.index, head, part.end, Region.ORDINARY_CONTEXT, confidence)


def _line_end(text: str, position: int) -> int:
    end = text.find("\n", position)
    return len(text) if end < 0 else end + 1
