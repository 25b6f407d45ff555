"""Regions by rules: the start that needs no training."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from memdecay.classifier.rules.conversation import Conversation, read_conversation
from memdecay.classifier.rules.registry import DEFAULT_RULES
from memdecay.classifier.rules.rule import Rule
from memdecay.classifier.rules.vote import SegmentGrid, winners


@dataclass(frozen=True, slots=True)
class RuleVotes:
    """Every rule's votes on every segment of a conversation.

    Attributes:
        conversation: What was read.
        rule_names: The rules, in the order of the votes.
        starts: ``(num_segments,)`` int64; first character in the contents, joined.
        lengths: ``(num_segments,)`` int64.
        offsets: ``num_messages + 1`` numbers; where each message's characters begin.
        votes: ``(num_rules, num_segments, NUM_REGIONS)`` float32, weighted.
        regions: ``(num_segments,)`` int8; the outcome.
    """

    conversation: Conversation
    rule_names: tuple[str, ...]
    starts: NDArray[np.int64]
    lengths: NDArray[np.int64]
    offsets: tuple[int, ...]
    votes: NDArray[np.float32]
    regions: NDArray[np.int8]

    def labels(self) -> list[NDArray[np.int8]]:
        """Return one array per message, the region of each character of its content."""
        flat = np.repeat(self.regions, self.lengths)
        return [flat[a:b] for a, b in zip(self.offsets, self.offsets[1:], strict=False)]


def rule_votes(
    messages: Sequence[Mapping[str, Any]],
    *,
    rules: Sequence[Rule] = DEFAULT_RULES,
    lookahead: bool = True,
) -> RuleVotes:
    """Let rules vote on the regions of a conversation.

    Args:
        messages: OpenAI chat messages of any shape.
        rules: The rules to ask.
        lookahead: Whether later messages may bear on earlier ones; see `read_conversation`.

    Raises:
        ValueError: There are no rules.
    """
    if not rules:
        raise ValueError("rules must hold at least one rule, got none")
    conversation = read_conversation(messages, lookahead=lookahead)
    grid = SegmentGrid(conversation)
    votes = grid.ask(rules)
    return RuleVotes(
        conversation=conversation,
        rule_names=tuple(rule.name for rule in rules),
        starts=grid.starts,
        lengths=grid.lengths,
        offsets=tuple(grid.offsets),
        votes=votes,
        regions=winners(votes.sum(axis=0)),
    )


def rule_labels(
    messages: Sequence[Mapping[str, Any]],
    *,
    rules: Sequence[Rule] = DEFAULT_RULES,
    lookahead: bool = False,
) -> list[NDArray[np.int8]]:
    """Return the region of every character of every message's content, by rules.

    Structured tool calls have no characters here; they are tool_summary by definition.

    Args:
        messages: OpenAI chat messages of any shape; for contents that are no plain text see
            `memdecay.classifier.messages.content_text`.
        rules: The rules to ask.
        lookahead: Whether later messages may bear on earlier ones. Without it the labels of a
            message stay as they are when the conversation goes on, so it can run online.

    Raises:
        ValueError: There are no rules.

    Returns:
        One ``(num_characters,)`` int8 array per message; values as in `Region`.
    """
    return rule_votes(messages, rules=rules, lookahead=lookahead).labels()
