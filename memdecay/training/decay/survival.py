"""Survival curves: the attention that a region's tokens still receive as they age."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from memdecay.classifier.hindsight import AgeBuckets
from memdecay.classifier.regions import Region
from memdecay.data.hindsight.measured import MeasuredTrace
from memdecay.training.calibration.resampling import LEVEL, Weights


@dataclass(frozen=True, slots=True)
class TraceSums:
    """What one trace adds to the curves.

    Attributes:
        lifts: ``(NUM_REGIONS, buckets)``, float64; summed over the region's judged tokens.
        num_queries: ``(NUM_REGIONS, buckets)``, int64.
        num_tokens: ``(NUM_REGIONS,)``, int64; judged tokens.
    """

    lifts: NDArray[np.float64]
    num_queries: NDArray[np.int64]
    num_tokens: NDArray[np.int64]

    @classmethod
    def of(cls, measured: MeasuredTrace) -> TraceSums:
        """Sum up a trace."""
        lifts, num_queries = measured.received.total()
        labels = measured.aligned.labels
        rows = [np.flatnonzero(measured.is_judged & (labels == region)) for region in Region]
        return cls(
            lifts=np.stack([lifts[row].sum(axis=0) for row in rows]),
            num_queries=np.stack([num_queries[row].sum(axis=0) for row in rows]),
            num_tokens=np.array([row.size for row in rows], np.int64),
        )

    def pooled(self) -> TraceSums:
        """Return the sums over all regions, as if there were one: ``(1, buckets)`` and ``(1,)``."""
        return TraceSums(
            lifts=self.lifts.sum(axis=0, keepdims=True),
            num_queries=self.num_queries.sum(axis=0, keepdims=True),
            num_tokens=self.num_tokens.sum(keepdims=True),
        )


@dataclass(frozen=True, slots=True)
class SurvivalCurves:
    """Mean lift by region and age: 1 is what looking everywhere alike would give.

    Curves of `TraceSums.pooled` have one row in place of `NUM_REGIONS`.

    Attributes:
        buckets: The ages.
        lifts: ``(NUM_REGIONS, buckets)``, float64; nan where too little was seen.
        replicates: ``(resamples, NUM_REGIONS, buckets)``, float64; the same on bootstrap samples
            of whole traces. Empty where there are fewer than two traces.
        num_tokens: ``(NUM_REGIONS,)``, int64; judged tokens.
        num_traces: ``(NUM_REGIONS,)``, int64; traces that have such tokens.
    """

    buckets: AgeBuckets
    lifts: NDArray[np.float64]
    replicates: NDArray[np.float64]
    num_tokens: NDArray[np.int64]
    num_traces: NDArray[np.int64]

    def bands(self) -> tuple[NDArray[np.float64], NDArray[np.float64]] | None:
        """Return the ends of each point's interval, ``(NUM_REGIONS, buckets)`` each."""
        if not len(self.replicates):
            return None
        tail = (1 - LEVEL) / 2
        with np.errstate(all="ignore"):
            low, high = _nan_quantiles(self.replicates, (tail, 1 - tail))
        return np.fmin(low, self.lifts), np.fmax(high, self.lifts)


def survival_curves(
    sums: list[TraceSums], buckets: AgeBuckets, weights: Weights, min_queries: int
) -> SurvivalCurves:
    """Average over traces, each query that sees a token counting alike.

    Args:
        sums: One for each trace, at least one.
        buckets: The ages that were told apart.
        weights: ``(resamples, traces)``; how often each trace stands in each bootstrap sample.
        min_queries: Points of fewer queries are left out.

    Raises:
        ValueError: There are no traces.
    """
    if not sums:
        raise ValueError("expected at least one trace, got none")
    lifts = np.stack([trace.lifts for trace in sums])
    num_queries = np.stack([trace.num_queries for trace in sums])
    is_known = num_queries.sum(axis=0) >= min_queries
    everything = np.ones((1, len(sums)))
    mean = np.where(is_known, _means(lifts, num_queries, everything)[0], np.nan)
    replicates = np.empty((0, *mean.shape))
    if len(sums) > 1:
        replicates = np.where(is_known, _means(lifts, num_queries, weights), np.nan)
    num_tokens = np.stack([trace.num_tokens for trace in sums])
    return SurvivalCurves(
        buckets=buckets,
        lifts=mean,
        replicates=replicates,
        num_tokens=num_tokens.sum(axis=0),
        num_traces=(num_tokens > 0).sum(axis=0),
    )


def _means(
    lifts: NDArray[np.float64], num_queries: NDArray[np.int64], weights: Weights
) -> NDArray[np.float64]:
    total = np.tensordot(weights, lifts, axes=1)
    count = np.tensordot(weights, num_queries.astype(np.float64), axes=1)
    means: NDArray[np.float64] = np.divide(
        total, count, out=np.full(total.shape, np.nan), where=count > 0
    )
    return means


def _nan_quantiles(values: NDArray[np.float64], shares: tuple[float, ...]) -> NDArray[np.float64]:
    """Return quantiles over the first axis, nan where nothing else is there, without a warning."""
    filled = np.where(np.isnan(values).all(axis=0), 0.0, values)
    quantiles: NDArray[np.float64] = np.nanquantile(filled, shares, axis=0)
    return np.where(np.isnan(values).all(axis=0), np.nan, quantiles)
