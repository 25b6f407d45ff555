"""What is gained when the classifier may abstain: accuracy against the share of tokens it tags."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from memdecay.training.calibration.resampling import Estimate, bootstrap_weights, interval
from memdecay.training.calibration.tokens import TaggedTokens

NUM_STEPS = 100
"""Thresholds are the multiples of a hundredth."""


@dataclass(frozen=True, slots=True)
class CoveragePoint:
    """What holds when tokens of less confidence than a threshold are left untagged.

    Attributes:
        threshold: The least confidence.
        coverage: Share of tokens still tagged.
        accuracy: Share of those tagged right.
    """

    threshold: float
    coverage: Estimate
    accuracy: Estimate


@dataclass(frozen=True, slots=True)
class Coverage:
    """Accuracy and coverage over all thresholds.

    Attributes:
        target: The accuracy that is wanted.
        points: By rising threshold; those at which no token is left are missing.
        recommended: The point of the lowest threshold that reaches the target; None if none does.
    """

    target: float
    points: tuple[CoveragePoint, ...]
    recommended: CoveragePoint | None


def coverage(
    tokens: TaggedTokens, target: float, num_resamples: int, rng: np.random.Generator
) -> Coverage:
    """Measure accuracy and coverage at every threshold.

    Args:
        tokens: The tokens, at least one.
        target: The accuracy that is wanted, above 0 and at most 1.
        num_resamples: Bootstrap samples behind each interval.
        rng: Where randomness comes from.

    Raises:
        ValueError: The target is out of range.
    """
    if not 0 < target <= 1:
        raise ValueError(f"target accuracy must lie above 0 and at most at 1, got {target}")
    _, row = np.unique(tokens.trace, return_inverse=True)
    num_rows = int(row[-1]) + 1
    step = np.minimum((tokens.confidence * NUM_STEPS).astype(np.int64), NUM_STEPS - 1)
    cell, size = row * NUM_STEPS + step, num_rows * NUM_STEPS
    hits = np.bincount(cell, tokens.predicted == tokens.labels, size).reshape(-1, NUM_STEPS)
    kept = np.bincount(cell, minlength=size).astype(np.float64).reshape(-1, NUM_STEPS)
    weights = bootstrap_weights(num_rows, num_resamples if num_rows > 1 else 0, rng)
    weights = np.concatenate([np.ones((1, num_rows)), weights])
    hits, kept = (_from_above(weights @ counts) for counts in (hits, kept))
    shares = kept / kept[:, :1]
    accuracies = np.divide(hits, kept, out=np.full(kept.shape, np.nan), where=kept > 0)
    points = tuple(
        CoveragePoint(
            index / NUM_STEPS,
            interval(float(shares[0, index]), shares[1:, index]),
            interval(float(accuracies[0, index]), accuracies[1:, index]),
        )
        for index in range(NUM_STEPS)
        if kept[0, index] > 0
    )
    reaching = (point for point in points if point.accuracy.value >= target)
    return Coverage(target, points, next(reaching, None))


def _from_above(counts: np.ndarray) -> np.ndarray:
    summed: np.ndarray = counts[:, ::-1].cumsum(axis=1)[:, ::-1]
    return summed
