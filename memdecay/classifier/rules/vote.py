"""From many proposals to one region for each piece of text."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from memdecay.classifier.regions import NUM_REGIONS, Region
from memdecay.classifier.rules.conversation import Conversation
from memdecay.classifier.rules.rule import Proposal, Rule


class SegmentGrid:
    """All segments of a conversation in one row, for proposals to land on.

    Attributes:
        starts: ``(num_segments,)`` int64; first character in the conversation's contents, joined.
        lengths: ``(num_segments,)`` int64; characters.
        offsets: ``(num_messages + 1,)``; where each message's characters begin in the joined text.
    """

    def __init__(self, conversation: Conversation) -> None:
        self._conversation = conversation
        lengths = [len(turn.text) for turn in conversation.turns]
        self.offsets: list[int] = [0, *np.cumsum(lengths, dtype=np.int64).tolist()]
        self._starts: list[int] = [
            self.offsets[turn.index] + segment.start
            for turn in conversation.turns
            for segment in turn.segments
        ]
        bounds = np.array([*self._starts, self.offsets[-1]], np.int64)
        self.starts: NDArray[np.int64] = bounds[:-1]
        self.lengths: NDArray[np.int64] = np.diff(bounds)
        self._lengths: list[int] = self.lengths.tolist()

    def __len__(self) -> int:
        return len(self._starts)

    def ask(self, rules: Sequence[Rule]) -> NDArray[np.float32]:
        """Return the weighted votes of rules, ``(num_rules, num_segments, NUM_REGIONS)``, float32.

        Args:
            rules: The rules, at least one.
        """
        conversation = self._conversation
        return np.stack([self.votes(rule.propose(conversation), rule.weight) for rule in rules])

    def votes(self, proposals: Iterable[Proposal], weight: float = 1.0) -> NDArray[np.float32]:
        """Return ``(num_segments, NUM_REGIONS)`` float32: the confidence for each region.

        A proposal counts for a segment by the share of it that it covers. Where one rule speaks
        twice for a region, the surer proposal counts.
        """
        votes = np.zeros((len(self), NUM_REGIONS), np.float32)
        for message, start, end, region, confidence in proposals:
            start += self.offsets[message]
            end = min(end + self.offsets[message], self.offsets[message + 1])
            if start >= end:
                continue
            first = bisect_right(self._starts, start) - 1
            last = bisect_right(self._starts, end - 1)
            if last - first == 1 and end - start == self._lengths[first]:
                if votes[first, region] < confidence:
                    votes[first, region] = confidence
                continue
            column = votes[first:last, region]
            np.maximum(column, confidence * self._covered(first, last, start, end), out=column)
        return votes * np.float32(weight)

    def _covered(self, first: int, last: int, start: int, end: int) -> NDArray[np.float32]:
        starts = self.starts[first:last]
        lengths = self.lengths[first:last]
        covered = np.minimum(starts + lengths, end) - np.maximum(starts, start)
        share: NDArray[np.float32] = (covered / lengths).astype(np.float32)
        return share


def winners(votes: NDArray[np.float32]) -> NDArray[np.int8]:
    """Return each segment's region with most votes, ordinary_context where none has any.

    Ties go to the region that comes first in `Region`, the one an agent would miss most.

    Args:
        votes: ``(num_segments, NUM_REGIONS)`` float32.

    Returns:
        ``(num_segments,)`` int8; values as in `Region`.
    """
    regions: NDArray[np.int8] = votes.argmax(axis=1).astype(np.int8)
    regions[votes.max(axis=1, initial=0.0) <= 0] = Region.ORDINARY_CONTEXT
    return regions
