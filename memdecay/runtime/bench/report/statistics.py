"""Figures over several traces, with intervals; pure functions on arrays."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

NUM_RESAMPLES = 2000
_LEAST = 1e-9


@dataclass(frozen=True, slots=True)
class Interval:
    """An estimate with the bounds of its 95 % bootstrap interval; NaN where there is none."""

    value: float
    low: float
    high: float


def bootstrap(
    values: NDArray[np.float64], statistic: Callable[[NDArray[np.float64]], NDArray[np.float64]]
) -> Interval:
    """Return a statistic and its interval over resampled traces.

    Args:
        values: ``(traces,)`` or ``(traces, k)``: what belongs to a trace stays together.
        statistic: Takes ``(..., traces)`` or ``(..., traces, k)`` and reduces the traces (and k).

    Returns:
        The statistic of the values, with the 2.5 % and 97.5 % quantiles over 2,000 resamples of
        the traces; the same resamples in each call.
    """
    if not len(values):
        return Interval(math.nan, math.nan, math.nan)
    rng = np.random.default_rng(0)
    chosen = rng.integers(0, len(values), (NUM_RESAMPLES, len(values)))
    with np.errstate(invalid="ignore", divide="ignore"):
        value = float(statistic(values))
        resampled = statistic(values[chosen])
    finite = resampled[np.isfinite(resampled)]
    if not len(finite):
        return Interval(value, math.nan, math.nan)
    low, high = np.quantile(finite, [0.025, 0.975])
    return Interval(value, float(low), float(high))


def mean_interval(values: Sequence[float]) -> Interval:
    """Return the mean over traces; NaN values are left out."""
    array = np.asarray(values, np.float64)
    return bootstrap(array[np.isfinite(array)], lambda sample: sample.mean(axis=-1))


def geometric_mean(values: Sequence[float]) -> float:
    """Return the geometric mean of values of 0 or more, 0 counting as 1e-9; NaN are left out."""
    array = np.asarray(values, np.float64)
    array = array[np.isfinite(array)]
    return float(np.exp(np.log(array.clip(min=_LEAST)).mean())) if len(array) else math.nan


def ratio_interval(values: Sequence[float], others: Sequence[float]) -> Interval:
    """Return the geometric mean over traces of ``value / other``, paired.

    Args:
        values: One for each trace, 0 or more; pairs with a NaN are left out.
        others: What they are divided by, in the same order; 0 counts as 1e-9.

    >>> round(ratio_interval([1.0, 4.0], [2.0, 2.0]).value, 3)
    1.0
    """
    left, right = np.asarray(values, np.float64), np.asarray(others, np.float64)
    is_paired = np.isfinite(left) & np.isfinite(right)
    logs = np.log(left[is_paired].clip(min=_LEAST)) - np.log(right[is_paired].clip(min=_LEAST))
    return bootstrap(logs, lambda sample: np.exp(sample.mean(axis=-1)))


def retention_interval(sums: NDArray[np.float64]) -> Interval:
    """Return the share of the full cache's benefit that is kept over all traces.

    Args:
        sums: ``(traces, 3)``; summed surprise with the cache under test, with a full cache and
            without context.
    """

    def share(sample: NDArray[np.float64]) -> NDArray[np.float64]:
        nll, full, bare = np.moveaxis(sample.sum(axis=-2), -1, 0)
        kept: NDArray[np.float64] = np.where(bare > full, (bare - nll) / (bare - full), np.nan)
        return kept

    return bootstrap(sums, share)


@dataclass(frozen=True, slots=True)
class IsoQuality:
    """The share of the full cache's bytes at which a quality is reached.

    Attributes:
        share: The share; the smallest or largest measured one where it lies beyond.
        bound: ``=`` where it lies between measured budgets, ``<=`` where the smallest is good
            enough, ``>`` where the largest is not.
    """

    share: float
    bound: str


def iso_quality(shares: Sequence[float], kl: Sequence[float], wanted: float) -> IsoQuality:
    """Return how much memory a divergence takes, log-interpolated between budgets.

    Args:
        shares: Measured shares of the full cache's bytes, rising, at least one.
        kl: Mean divergence at each.
        wanted: The divergence to reach, above 0.

    >>> iso_quality([0.1, 0.4], [0.1, 0.025], 0.05)
    IsoQuality(share=0.2, bound='=')
    """
    good = [value <= wanted for value in kl]
    if good[0]:
        return IsoQuality(shares[0], "<=")
    if not any(good):
        return IsoQuality(shares[-1], ">")
    i = good.index(True)
    logs = np.log([max(kl[i - 1], _LEAST), max(kl[i], _LEAST), wanted])
    part = (logs[0] - logs[2]) / (logs[0] - logs[1])
    share = math.exp((1 - part) * math.log(shares[i - 1]) + part * math.log(shares[i]))
    return IsoQuality(round(share, 6), "=")
