"""What the rules say of labels that were given by others."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from memdecay.classifier.regions import NUM_REGIONS, Region
from memdecay.classifier.rules import rule_votes
from memdecay.data.trace import Span, Trace


@dataclass(frozen=True, slots=True)
class Opinion:
    """How far the rules believe a span's label.

    Attributes:
        trace: The trace.
        span: The labelled span.
        region: The region that the rules believe in most.
        belief: Their belief in the label, above 0 and at most 1.
    """

    trace: Trace
    span: Span
    region: Region
    belief: float

    @property
    def surprise(self) -> float:
        """Bits of surprise at the label."""
        return -math.log2(self.belief)


def doubted_by_rules(traces: Iterable[Trace], share: float) -> tuple[Opinion, ...]:
    """Return the labels that surprise the rules most, where these see another region.

    Args:
        traces: Labelled traces.
        share: The share of all labelled spans that is returned at most, from 0 to 1.
    """
    opinions = [opinion for trace in traces for opinion in _opinions(trace)]
    opinions.sort(key=lambda opinion: -opinion.surprise)
    most = opinions[: math.ceil(share * len(opinions))]
    return tuple(opinion for opinion in most if opinion.region is not opinion.span.region)


def _opinions(trace: Trace) -> Iterator[Opinion]:
    votes = rule_votes([message.to_openai() for message in trace.messages])
    beliefs = _beliefs(votes.votes.sum(axis=0))
    ends = votes.starts + votes.lengths
    for span in trace.spans:
        start, end = (votes.offsets[span.message] + place for place in (span.start, span.end))
        first, last = np.searchsorted(ends, start, "right"), np.searchsorted(votes.starts, end)
        covered = np.minimum(ends[first:last], end) - np.maximum(votes.starts[first:last], start)
        if covered.sum() > 0:
            mean = np.average(beliefs[first:last], axis=0, weights=covered)
            yield Opinion(trace, span, Region(int(mean.argmax())), float(mean[span.region]))


def _beliefs(votes: NDArray[np.float32]) -> NDArray[np.float64]:
    """Return shares ``(segments, NUM_REGIONS)``, above 0, that add up to 1."""
    if not len(votes):
        return np.empty((0, NUM_REGIONS))
    powers = np.exp(votes.astype(np.float64) - votes.max(axis=1, keepdims=True))
    beliefs: NDArray[np.float64] = powers / powers.sum(axis=1, keepdims=True)
    return beliefs
