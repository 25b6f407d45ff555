"""Initial score and decay factor that follow a survival curve best."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from memdecay.training.calibration.resampling import Estimate, interval
from memdecay.training.decay.survival import SurvivalCurves

MIN_POINTS = 3
_LEAST_SD = 0.05
_ENDLESS_TOKENS = 1e12


@dataclass(frozen=True, slots=True)
class RegionFit:
    """One region's ``score(age) = score * exp(-decay * age)``, in lifts.

    Attributes:
        score: Attention of a fresh token, as the older ones let expect it.
        decay: Decay factor per token, 0 or above.
        survival_tokens: Age at which the score falls below the threshold:
            ``ln(score / threshold) / decay``; infinite where it never does.
        r_squared: Share of the curve's weighted variance (in logarithms) that the fit explains.
        num_points: Points of the curve that were fitted.
    """

    score: Estimate
    decay: Estimate
    survival_tokens: Estimate
    r_squared: float
    num_points: int


def fit_region(
    curves: SurvivalCurves, region: int, min_age: int, threshold: float
) -> RegionFit | None:
    """Fit one region by weighted least squares of the logarithm, with intervals over traces.

    A point weighs as the inverse variance of its logarithm over the bootstrap samples; all weigh
    alike where there are none. A curve that rises gets the decay 0 and its weighted mean. A region
    of one trace has no intervals.

    Args:
        curves: The survival curves.
        region: The region, or another row of the curves.
        min_age: Ages below it are left out.
        threshold: The lift below which a token counts as forgotten, above 0.

    Returns:
        The fit; None where fewer than `MIN_POINTS` points are there.

    Raises:
        ValueError: The threshold is not above 0.
    """
    if not threshold > 0:
        raise ValueError(f"threshold must be above 0, got {threshold}")
    first = curves.buckets.first_from(min_age)
    ages = curves.buckets.centres[first:]
    lifts = curves.lifts[region, first:]
    usable = np.nan_to_num(lifts) > 0
    if usable.sum() < MIN_POINTS:
        return None
    ages, log_lifts = ages[usable], np.log(lifts[usable])
    with np.errstate(divide="ignore"):
        replicates = np.log(curves.replicates[:, region, first:][:, usable])
    weights = _weights(replicates, len(ages))
    log_score, decay = _fit(ages, log_lifts[None], weights)
    # The same trace drawn anew and anew would give an interval of no width.
    spread = replicates if curves.num_traces[region] > 1 else replicates[:0]
    log_scores, decays = _fit(ages, spread, weights)
    tokens = _survival_tokens(log_score, decay, threshold)
    return RegionFit(
        score=_estimate(float(np.exp(log_score[0])), np.exp(log_scores)),
        decay=_estimate(float(decay[0]), decays),
        survival_tokens=_estimate(
            float(tokens[0]), _survival_tokens(log_scores, decays, threshold)
        ),
        r_squared=_r_squared(log_lifts, log_score[0] - decay[0] * ages, weights),
        num_points=len(ages),
    )


def _weights(replicates: NDArray[np.float64], num_points: int) -> NDArray[np.float64]:
    finite = np.isfinite(replicates)
    if len(replicates) < 2 or (finite.sum(axis=0) < 2).any():
        return np.ones(num_points)
    filled = np.where(finite, replicates, np.nan)
    weights: NDArray[np.float64] = np.maximum(np.nanstd(filled, axis=0), _LEAST_SD) ** -2.0
    return weights


def _fit(
    ages: NDArray[np.float64], log_values: NDArray[np.float64], weights: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the logarithm of the score and the decay of each row of ``(rows, points)``.

    A row with fewer than `MIN_POINTS` finite values gives nan.
    """
    known = np.isfinite(log_values)
    own = weights * known
    own /= np.maximum(own.sum(axis=1, keepdims=True), 1e-300)
    values = np.where(known, log_values, 0.0)
    mean_age = (own * ages).sum(axis=1, keepdims=True)
    mean_value = (own * values).sum(axis=1, keepdims=True)
    spread = (own * (ages - mean_age) ** 2).sum(axis=1)
    slope = (own * (ages - mean_age) * (values - mean_value)).sum(axis=1)
    slope /= np.maximum(spread, 1e-300)
    decay = np.maximum(-slope, 0.0)
    log_score = mean_value[:, 0] + decay * mean_age[:, 0]
    is_short = known.sum(axis=1) < MIN_POINTS
    return np.where(is_short, np.nan, log_score), np.where(is_short, np.nan, decay)


def _survival_tokens(
    log_score: NDArray[np.float64], decay: NDArray[np.float64], threshold: float
) -> NDArray[np.float64]:
    excess = np.maximum(log_score - math.log(threshold), 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        tokens = excess / decay
    # Never fading: above the threshold for ever, below it from the start.
    never = np.where(excess > 0, math.inf, 0.0)
    return np.where(decay == 0, never, tokens)


def _r_squared(
    values: NDArray[np.float64], fitted: NDArray[np.float64], weights: NDArray[np.float64]
) -> float:
    mean = np.average(values, weights=weights)
    total = float((weights * (values - mean) ** 2).sum())
    left = float((weights * (values - fitted) ** 2).sum())
    return 1 - left / total if total > 0 else 1.0


def _estimate(value: float, replicates: NDArray[np.float64]) -> Estimate:
    if len(replicates) < 2:
        return Estimate(value)
    # Quantiles between two infinities are undefined: a number no sequence reaches stands for them.
    found = interval(min(value, _ENDLESS_TOKENS), np.minimum(replicates, _ENDLESS_TOKENS))
    return Estimate(value, _endless(found.low), _endless(found.high))


def _endless(value: float | None) -> float | None:
    # An end that is interpolated towards the stand-in is as good as endless.
    return math.inf if value is not None and value > _ENDLESS_TOKENS / 1000 else value
