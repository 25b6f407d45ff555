"""Verdicts on the agent's work, its reflections on them, and answers to a tool's own questions."""

from __future__ import annotations

import re
from collections.abc import Iterator

from memdecay.classifier.regions import Region
from memdecay.classifier.rules.conversation import Conversation, Speaker
from memdecay.classifier.rules.rule import Proposal

_VERDICT = re.compile(
    r"your (?:answer|solution) is\b|correct answer\b|answer is (?:in)?correct\b|"
    r"reward ?[=:]|episode finished\b|was (?:in)?correct\b|expected answer\b|"
    r"this is (?:good|bad)\b|\? (?:yes|no|y|n)[ \t]*$|"
    r"\bi (?:should have|assumed|got stuck|was stuck|could have|failed to|misread|wrongly)\b|"
    r"next time\b|in the next (?:trial|attempt)\b|new plan\b|reflection\b",
    re.MULTILINE,
)


def verdicts(conversation: Conversation) -> Iterator[Proposal]:
    """Propose key_decision for verdicts, reflections and prompts that were answered."""
    for turn in conversation.of(Speaker.RESULT, Speaker.USER):
        for segment in turn.segments_with(_VERDICT):
            yield Proposal(turn.index, segment.start, segment.end, Region.KEY_DECISION, 1.2)
