"""Verdicts on the agent's work, its reflections on them, and answers to a tool's own questions."""

from __future__ import annotations

import re
from collections.abc import Iterator

from memdecay.classifier.regions import Region
from memdecay.classifier.rules.conversation import Conversation, Speaker
from memdecay.classifier.rules.rule import Proposal

_VERDICT = re.compile(
    r"\b(?:your (?:answer|solution) is|(?:the )?correct answer\b|answer is (?:in)?correct|"
    r"reward ?(?:=|:)|episode finished|was (?:in)?correct|expected answer)\b|"
    r"\bthis is (?:GOOD|BAD)\b|\? (?:yes|no|y|n)\s*$",
    re.IGNORECASE | re.MULTILINE,
)
_REFLECTION = re.compile(
    r"\bI (?:should have|assumed|got stuck|was stuck|could have|failed to|misread|wrongly)\b|"
    r"\b(?:next time|in the next (?:trial|attempt)|new plan|reflection)\b",
    re.IGNORECASE,
)


def verdicts(conversation: Conversation) -> Iterator[Proposal]:
    """Propose key_decision for verdicts, reflections and prompts that were answered."""
    for turn in conversation.of(Speaker.RESULT, Speaker.USER):
        for segment in turn.segments:
            text = turn.segment_text(segment)
            if _VERDICT.search(text) or _REFLECTION.search(text):
                yield Proposal(turn.index, segment.start, segment.end, Region.KEY_DECISION, 1.2)
