"""Conversation between a person and the agent: questions, facts given, confirmations, answers."""

from __future__ import annotations

import re
from collections.abc import Iterator

from memdecay.classifier.regions import Region
from memdecay.classifier.rules.conversation import Conversation, Speaker, Turn
from memdecay.classifier.rules.rule import Proposal
from memdecay.classifier.rules.thoughts import prose

_FACT = re.compile(
    r"[\w.]+@[\w.]+|#?\b[A-Z]*\d{4,}\b|\b[a-z]+_[a-z]+_\d+\b|\b[A-Z0-9]{6,}\b|"
    r"\bmy (?:name|zip|e-?mail|user|order|address|id|reservation|phone)\b[^?]{0,60}\b(?:is|are)\b|"
    r"\b(?:name is|zip code)\b",
)
_CONFIRMATION = re.compile(
    r"\s*(?:yes|yep|yeah|sure|confirmed?|go ahead|please (?:proceed|go ahead|do)|correct|"
    r"that(?:'s| is) (?:correct|right|fine)|sounds good|ok(?:ay)?|alright|no,|exactly|"
    r"是的|好的|可以)(?:\b|(?<=[的以]))",
    re.IGNORECASE,
)
_PREFERENCE = re.compile(
    r"\b(?:I(?:'d| would) (?:like|prefer|rather)|prefer|instead|only|use (?:my|the)|"
    r"I want|I don'?t want|as long as|rather|change it|exchange|refund|reason|"
    r"because|cheapest|let's|from now on|for the rest of|set (?:it|this|that) to|"
    r"please (?:answer|keep|leave|write)|please (?:use|book|cancel|change|proceed|add|make)|"
    r"(?:could|can|would) (?:you|we)(?: \w+){0,2} (?:cancel|change|return|book|rebook|upgrade|"
    r"downgrade|remove|switch|replace|add|move|update)|"
    r"need to (?:cancel|change|return|book|remove|switch|replace|add|move|update))\b",
    re.IGNORECASE,
)
_THANKS = re.compile(
    r"\s*(?:thank|thanks|great|perfect|that's all|bye|goodbye|谢谢)|###\w+###", re.IGNORECASE
)
_PROPOSAL = re.compile(
    r"\b(?:do you (?:confirm|agree|want (?:(?:me )?to (?!know|learn|see|hear|read)|this|that|it))|"
    r"would you like (?:me )?to (?:proceed|go ahead|continue)|"
    r"please (?:confirm|reply|respond)|\(yes/no\)|confirm \(?[\"']?yes|shall I|"
    r"like to proceed|confirm (?:if|that|whether|the|this|your))\b",
    re.IGNORECASE,
)
_REQUEST = re.compile(
    r"\b(?:let me know (?:which|your|the|how)|provide|which (?:payment|one|of)|need to know|"
    r"I(?:'ll| will) need|how would you like|could you)\b",
    re.IGNORECASE,
)
_CLOSING = re.compile(
    r"\s*(?:(?:with )?th(?:is|ese|at)\b|the (?:first|second|changes?|above|updated)|once |"
    r"let me know|please )",
    re.IGNORECASE,
)
_ASKING = re.compile(
    r"\blet me know\b|\bplease (?:re-?run|provide|add|confirm|share|let|run|try)\b|feel free to|"
    r"if you (?:have any|need|would like)|is there anything else|anything else I can",
    re.IGNORECASE,
)


def user_facts(conversation: Conversation) -> Iterator[Proposal]:
    """Propose key_decision where a user gives ids and facts, confirms or fixes a preference."""
    for turn in conversation.of(Speaker.USER):
        if turn.is_opening or len(turn.text) > 2000:
            continue
        if _FACT.search(turn.text) or (_CONFIRMATION.match(turn.text) and "?" not in turn.text):
            yield _whole(turn, Region.KEY_DECISION, 0.8)
        elif _PREFERENCE.search(turn.text):
            yield _whole(turn, Region.KEY_DECISION, 0.5)


def user_talk(conversation: Conversation) -> Iterator[Proposal]:
    """Propose recent_dialogue for a user's questions, thanks and small talk."""
    for turn in conversation.of(Speaker.USER):
        if turn.is_opening:
            continue
        if _THANKS.match(turn.text):
            yield _whole(turn, Region.RECENT_DIALOGUE, 0.8)
        elif "?" in turn.text or "\uff1f" in turn.text:
            yield _whole(turn, Region.RECENT_DIALOGUE, 0.4)


def agent_replies(conversation: Conversation) -> Iterator[Proposal]:
    """Propose recent_dialogue for an agent's answers in a chat, key_decision for a task's last."""
    for turn in conversation.of(Speaker.ASSISTANT):
        if turn.acts or (turn.parts and not turn.is_chat):
            continue
        region = Region.RECENT_DIALOGUE if turn.is_chat else Region.KEY_DECISION
        for start, end in prose(turn):
            yield Proposal(turn.index, start, end, region, 0.7)


def agent_proposals(conversation: Conversation) -> Iterator[Proposal]:
    """Propose key_decision for the details of what an agent asks the user to confirm."""
    for turn in conversation.of(Speaker.ASSISTANT):
        if turn.acts or not turn.is_chat or not _PROPOSAL.search(turn.text):
            continue
        if _REQUEST.search(turn.text):
            continue
        for segment in turn.segments:
            if not _PROPOSAL.search(turn.segment_text(segment)):
                yield Proposal(turn.index, segment.start, segment.end, Region.KEY_DECISION, 1.1)


def closing_words(conversation: Conversation) -> Iterator[Proposal]:
    """Propose recent_dialogue for what an agent tells the user after its last call as text."""
    for turn in conversation.of(Speaker.ASSISTANT):
        for segment in turn.segments:
            text = turn.segment_text(segment)
            is_after = bool(turn.parts) and segment.start >= turn.parts[-1].end
            if (is_after and _CLOSING.match(text)) or _ASKING.search(text):
                yield Proposal(turn.index, segment.start, segment.end, Region.RECENT_DIALOGUE, 1.6)


def _whole(turn: Turn, region: Region, confidence: float) -> Proposal:
    return Proposal(turn.index, 0, len(turn.text), region, confidence)
