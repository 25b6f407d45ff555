"""Labelled stretches of text and how much they were looked back at."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from memdecay.classifier.regions import Region
from memdecay.classifier.rules.segments import split_segments
from memdecay.data.hindsight.measured import DECISION_QUERIES, MeasuredTrace
from memdecay.data.trace import Span

MIN_TOKENS = 4
MIN_QUERIES = 64


@dataclass(frozen=True, slots=True)
class VisitedSegment:
    """A line or sentence with one label.

    Attributes:
        message: Index of its message.
        start: First character in the message's content.
        end: Its end.
        region: Its label.
        num_tokens: Tokens judged.
        visits: Attention it received over what is usual at its ages; 1 is as usual.
        decision_visits: The same from later key decisions alone; None where too few followed.
    """

    message: int
    start: int
    end: int
    region: Region
    num_tokens: int
    visits: float
    decision_visits: float | None


def visited_segments(measured: MeasuredTrace, min_age: int) -> tuple[VisitedSegment, ...]:
    """Return how much each labelled segment was looked back at from a distance.

    The attention of a token is divided by what the trace's judged tokens receive on average at the
    same ages, so that a late token, which only young looks reach, is not taken for a favourite. A
    segment has the geometric mean of its tokens, which one odd token can't carry.

    Segments of fewer than `MIN_TOKENS` tokens, and those that fewer than `MIN_QUERIES` later
    tokens could see from that far, are left out.

    Args:
        measured: A labelled trace.
        min_age: The least age that counts, in tokens; nearer attention says how text is read, not
            what is remembered.
    """
    everything = _visits(measured, *measured.received.total(), min_age)
    received = measured.received
    decisions = None
    if received.lifts.shape[0] > DECISION_QUERIES:
        group = (received.lifts[DECISION_QUERIES], received.num_queries[DECISION_QUERIES])
        decisions = _visits(measured, *group, min_age)
    found = []
    for message, start, end, region, tokens in _segments(measured):
        visits = _mean(everything, tokens)
        if visits is not None:
            decision_visits = None if decisions is None else _mean(decisions, tokens)
            size = int(tokens.size)
            found.append(VisitedSegment(message, start, end, region, size, visits, decision_visits))
    return tuple(found)


@dataclass(frozen=True, slots=True)
class _Visits:
    """Each token's visits; ``log2_ratio`` and ``num_queries`` have the shape ``(n,)``."""

    log2_ratio: NDArray[np.float64]
    num_queries: NDArray[np.int64]


def _visits(
    measured: MeasuredTrace,
    lifts: NDArray[np.float64],
    num_queries: NDArray[np.int64],
    min_age: int,
) -> _Visits:
    first = measured.received.buckets.first_from(min_age)
    lifts, num_queries = lifts[:, first:], num_queries[:, first:]
    judged = measured.is_judged
    usual = lifts[judged].sum(axis=0) / np.maximum(num_queries[judged].sum(axis=0), 1)
    expected = num_queries @ usual
    observed = lifts.sum(axis=1)
    # A hundredth of the usual stands for nothing at all.
    ratio = np.maximum(observed, 0.01 * expected) / np.maximum(expected, 1e-12)
    return _Visits(np.log2(np.maximum(ratio, 0.01)), num_queries.sum(axis=1))


def _mean(visits: _Visits, tokens: NDArray[np.int64]) -> float | None:
    if visits.num_queries[tokens].min() < MIN_QUERIES:
        return None
    return float(2.0 ** visits.log2_ratio[tokens].mean())


def _segments(
    measured: MeasuredTrace,
) -> Iterator[tuple[int, int, int, Region, NDArray[np.int64]]]:
    """Yield message, start, end, label and judged tokens of each stretch within a span."""
    aligned = measured.aligned
    offsets = aligned.tokens.offsets
    for span in aligned.trace.spans:
        message = aligned.rendered.messages[span.message]
        shift = message.content_start - message.content_skip
        for start, end in _pieces(aligned.trace.messages[span.message].content, span):
            low, high = np.searchsorted(offsets[:, 0], (start + shift, end + shift))
            tokens = np.arange(low, high)
            tokens = tokens[measured.is_judged[tokens]]
            if tokens.size >= MIN_TOKENS:
                yield span.message, start, end, span.region, tokens


def _pieces(text: str, span: Span) -> Iterator[tuple[int, int]]:
    for segment in split_segments(text[span.start : span.end]):
        yield span.start + segment.start, span.start + segment.end
