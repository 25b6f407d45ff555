"""Intervals by resampling whole traces: tokens of one trace are no independent witnesses."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

LEVEL = 0.95
"""How sure an interval is."""

_LEAST_SHARE = 0.5

Weights = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Estimate:
    """A figure with its interval.

    Attributes:
        value: The figure on the sample.
        low: Lower end of the interval; None where the traces are too few for one.
        high: Its upper end.
    """

    value: float
    low: float | None = None
    high: float | None = None

    def to_dict(self) -> dict[str, float | None]:
        """Return the figure as plain data for JSON."""
        return {"value": self.value, "low": self.low, "high": self.high}


def bootstrap_weights(num_traces: int, num_resamples: int, rng: np.random.Generator) -> Weights:
    """Draw how often each trace stands in each bootstrap sample.

    Returns:
        ``(num_resamples, num_traces)``; every row sums to ``num_traces``.
    """
    shares = np.full(num_traces, 1 / num_traces)
    return rng.multinomial(num_traces, shares, size=num_resamples).astype(np.float64)


def subset_weights(
    num_traces: int, num_drawn: int, num_resamples: int, rng: np.random.Generator
) -> Weights:
    """Draw subsets of traces without replacement.

    Returns:
        ``(num_resamples, num_traces)``, ones for the traces drawn and zeros for the others.
    """
    weights = np.zeros((num_resamples, num_traces))
    weights[:, :num_drawn] = 1
    return rng.permuted(weights, axis=1)


def interval(
    value: float, replicates: NDArray[np.float64], *, is_inflated: bool = False
) -> Estimate:
    """Return a figure with the interval that its bootstrap replicates give.

    The percentile interval; for figures that a small sample inflates (calibration errors: noise
    adds to every gap) the basic one, which takes the inflation off again. In any case it is
    stretched to hold the figure itself.

    Args:
        value: The figure on the sample.
        replicates: ``(num_resamples,)``, the figure on resamples; nan where it is undefined.
        is_inflated: Whether noise makes the figure larger on average.
    """
    defined = replicates[~np.isnan(replicates)]
    if np.isnan(value) or len(defined) < max(1.0, _LEAST_SHARE * len(replicates)):
        return Estimate(value)
    low, high = np.quantile(defined, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    if is_inflated:
        low, high = max(0.0, 2 * value - high), 2 * value - low
    return Estimate(value, min(float(low), value), max(float(high), value))
