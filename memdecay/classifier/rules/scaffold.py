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
    r"\[(?:python interpreter|file: |command finished)|\[image|data:image|"
    r"\.{3,}\s*$|-{3,}\s*$|={3,}\s*$|\*{3,}\s*$|<\|im_(?:start|end)\|>)",
    re.IGNORECASE,
)
_RULE = re.compile(
    r"^\s*(?:you (?:must|should|need to|can only)|please (?:format|always|make sure)|"
    r"note:|important:|remember)",
    re.IGNORECASE,
)


def boilerplate(conversation: Conversation) -> Iterator[Proposal]:
    """Propose ordinary_context for prompts, headers, counters and control tokens."""
    for turn in conversation.of(Speaker.RESULT, Speaker.ASSISTANT, Speaker.USER):
        for segment in turn.segments:
            if _BOILERPLATE.match(turn.segment_text(segment)):
                yield Proposal(turn.index, segment.start, segment.end, Region.ORDINARY_CONTEXT, 0.9)


def state_rules(conversation: Conversation) -> Iterator[Proposal]:
    """Propose system_instruction where a scaffold's answer tells the agent what it must do."""
    for turn in conversation.of(Speaker.RESULT):
        for segment in turn.segments:
            if _RULE.match(turn.segment_text(segment)):
                yield Proposal(turn.index, segment.start, segment.end, Region.SYSTEM_INSTRUCTION, 0.6)
