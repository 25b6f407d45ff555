"""Traces with made-up attention, so that what is found can be known beforehand."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from memdecay.classifier.hindsight import AgeBuckets, ReceivedAttention, count_queries
from memdecay.classifier.llm import LanguageModel
from memdecay.classifier.regions import Region
from memdecay.data.hindsight.measured import MeasureAttention
from memdecay.data.trace import Message, Span, Trace

LiftOf = Callable[[int, NDArray[np.float64]], NDArray[np.float64]]
"""Gives a token's lift at some ages: index of the token, ages ``(buckets,)``."""


def lines_trace(
    trace_id: str, regions: Sequence[Region], *, line: str = "one more line of some words\n"
) -> Trace:
    """Return a trace of one user message, a line of text for each region."""
    spans = tuple(
        Span(0, index * len(line), (index + 1) * len(line), region)
        for index, region in enumerate(regions)
    )
    return Trace(trace_id, (Message("user", line * len(regions)),), "made-up", spans)


def measure_with(lift_of: LiftOf) -> MeasureAttention:
    """Return a measurement that gives each token the lift of a function, for any query."""

    def measure(
        _: LanguageModel,
        input_ids: NDArray[np.int64],
        buckets: AgeBuckets,
        query_groups: NDArray[np.int8],
    ) -> ReceivedAttention:
        counts = count_queries(query_groups, buckets)
        lifts = np.stack([lift_of(token, buckets.centres) for token in range(input_ids.size)])
        return ReceivedAttention(buckets, counts * lifts, counts)

    return measure
