"""What was labelled as passing, but later decisions look at as they look at decisions."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np

from memdecay.classifier.regions import Region
from memdecay.data.hindsight.measured import MeasuredTrace
from memdecay.data.hindsight.segments import VisitedSegment

PASSING = (Region.RECENT_DIALOGUE, Region.ORDINARY_CONTEXT)
"""The labels of what may be forgotten soon."""

_DECIDING_ROLES = ("user", "assistant")
_MIN_DECISIONS = 5
"""Labelled decisions without which nothing is known of how decisions are looked at."""


def late_decisions(
    traces: Sequence[tuple[MeasuredTrace, Sequence[VisitedSegment]]], tail: float, min_tokens: int
) -> set[tuple[int, VisitedSegment]]:
    """Find decisions among what is labelled as passing.

    Decisions look back at decisions: on annotated traces the attention of later ones tells a
    decision from passing text far better than that of all tokens does. So a sentence that a user
    or an agent said is a late decision if its visits by decisions are in the outer tail of its
    like and at least the median of what is labelled as a decision.

    Args:
        traces: Labelled traces and their segments.
        tail: Share of all such sentences that may be late decisions at most.
        min_tokens: The least tokens of one; a heading decides nothing.

    Returns:
        Places in ``traces`` and the segments.
    """
    sayings = [
        (index, segment, visits)
        for index, (measured, segments) in enumerate(traces)
        for segment, visits in _sayings(measured, segments, min_tokens)
    ]
    decisions = [
        segment.decision_visits
        for _, segments in traces
        for segment in segments
        if segment.region is Region.KEY_DECISION and segment.decision_visits is not None
    ]
    bound = math.inf
    if sayings and len(decisions) >= _MIN_DECISIONS:
        outer = np.quantile([visits for _, _, visits in sayings], 1 - tail)
        bound = max(float(outer), float(np.median(decisions)))
    return {(index, segment) for index, segment, visits in sayings if visits >= bound}


def _sayings(
    measured: MeasuredTrace, segments: Sequence[VisitedSegment], min_tokens: int
) -> Iterator[tuple[VisitedSegment, float]]:
    messages = measured.aligned.trace.messages
    for segment in segments:
        if segment.decision_visits is None or segment.num_tokens < min_tokens:
            continue
        if segment.region in PASSING and messages[segment.message].role in _DECIDING_ROLES:
            yield segment, segment.decision_visits
