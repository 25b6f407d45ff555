"""Whether the classifier is surer than it is right, region by region."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from memdecay.classifier.regions import REGION_LABELS
from memdecay.training.calibration.sums import TraceSums
from memdecay.training.calibration.verdict.multiple import holm

OVERALL = "all regions"
MIN_TRACES = 3


@dataclass(frozen=True, slots=True)
class GapTest:
    """Mean confidence against accuracy among the tokens tagged as one region.

    Attributes:
        name: The region, or `OVERALL`.
        gap: Mean confidence minus accuracy; nan where nothing is tagged so.
        p_value: How likely a gap as far beyond the tolerance is if the true one lies within it,
            adjusted for the number of tests; None with fewer than three traces.
        is_off: Whether the gap is beyond the tolerance, and not by chance.
    """

    name: str
    gap: float
    p_value: float | None
    is_off: bool


def gap_tests(sums: TraceSums, tolerance: float, alpha: float) -> tuple[GapTest, ...]:
    """Test the gap between confidence and accuracy of each region and of all together.

    The gap is a ratio of sums over traces. Its standard error is that of a ratio estimator with
    the trace as the sampling unit, se^2 = m / (m - 1) * sum_i (d_i - gap n_i)^2 / (sum_i n_i)^2,
    and (|gap| - tolerance) / se is held against Student's t with m - 1 degrees of freedom, so that
    few traces give no false alarm.

    Args:
        sums: One row a trace.
        tolerance: The largest gap that is still fine.
        alpha: Chance of any false alarm over all tests.

    Source:
        Cochran 1977, Sampling Techniques, section 6.4.
    """
    hits = np.diagonal(sums.confusion, axis1=1, axis2=2)
    counts = sums.confusion.sum(axis=1)
    excess = sums.tagged_confidence - hits
    excess = np.concatenate([excess, excess.sum(axis=1, keepdims=True)], axis=1)
    counts = np.concatenate([counts, counts.sum(axis=1, keepdims=True)], axis=1)
    pairs = [_gap(excess[:, i], counts[:, i], tolerance) for i in range(counts.shape[1])]
    adjusted = holm(np.array([p_value for _, p_value in pairs]))
    names = (*REGION_LABELS, OVERALL)
    return tuple(
        GapTest(name, gap, None if np.isnan(p_value) else float(p_value), bool(p_value < alpha))
        for name, (gap, _), p_value in zip(names, pairs, adjusted.tolist(), strict=True)
    )


def _gap(
    excess: NDArray[np.float64], counts: NDArray[np.float64], tolerance: float
) -> tuple[float, float]:
    held = counts > 0
    num_traces, num_tokens = int(held.sum()), counts.sum()
    if not num_traces:
        return float("nan"), float("nan")
    gap = float(excess.sum() / num_tokens)
    if num_traces < MIN_TRACES:
        return gap, float("nan")
    residuals = (excess - gap * counts)[held]
    variance = num_traces / (num_traces - 1) * np.square(residuals).sum() / num_tokens**2
    beyond = abs(gap) - tolerance
    if variance == 0:
        return gap, float(beyond <= 0)
    return gap, float(stats.t.sf(beyond / np.sqrt(variance), num_traces - 1))
