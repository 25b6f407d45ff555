"""The plain case: the region that a speaker's messages most often have."""

from __future__ import annotations

from collections.abc import Iterator

from memdecay.classifier.regions import Region
from memdecay.classifier.rules.conversation import Conversation, Speaker, Turn
from memdecay.classifier.rules.rule import Proposal


def role_default(conversation: Conversation) -> Iterator[Proposal]:
    """Propose a weak region for every message, by its speaker and by chat or task run."""
    for turn in conversation.turns:
        region, confidence = _default(turn)
        yield Proposal(turn.index, 0, len(turn.text), region, confidence)


def standing_instructions(conversation: Conversation) -> Iterator[Proposal]:
    """Propose system_instruction for system messages and for the statement of a task."""
    for turn in conversation.turns:
        if turn.speaker is Speaker.SYSTEM:
            yield Proposal(turn.index, 0, len(turn.text), Region.SYSTEM_INSTRUCTION, 1.0)
        elif turn.speaker is Speaker.USER and turn.is_opening:
            is_short_chat = turn.is_chat and len(turn.text) < 1200
            region = Region.RECENT_DIALOGUE if is_short_chat else Region.SYSTEM_INSTRUCTION
            yield Proposal(turn.index, 0, len(turn.text), region, 0.8)


def _default(turn: Turn) -> tuple[Region, float]:
    if turn.speaker is Speaker.SYSTEM:
        return Region.SYSTEM_INSTRUCTION, 0.5
    if turn.speaker is Speaker.USER:
        return Region.RECENT_DIALOGUE, 0.3
    if turn.speaker is Speaker.ASSISTANT:
        is_reply = turn.is_chat and not turn.acts
        return (Region.RECENT_DIALOGUE if is_reply else Region.KEY_DECISION), 0.3
    return Region.ORDINARY_CONTEXT, 0.3
