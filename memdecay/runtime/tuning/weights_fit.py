"""Fit the regions' weights to divergence on some traces and let others decide about them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from memdecay.classifier.region_settings import RegionSettings
from memdecay.runtime.tuning.parameters import bounds, start, to_settings
from memdecay.runtime.tuning.search import Vector, coordinate_search
from memdecay.runtime.tuning.stage import (
    Judge,
    MomentResult,
    StageFit,
    TunedMoment,
    is_gain,
    log_kl,
)


@dataclass(frozen=True, slots=True)
class WeightsConfig:
    """How the weights are searched for.

    Attributes:
        max_evaluations: Most settings that are tried on all snapshots of the fit.
        shrinkage: What a weight of 1 costs, in the logarithm of the divergence: weights must earn
            more than that.
    """

    max_evaluations: int = 60
    shrinkage: float = 0.005

    def __post_init__(self) -> None:
        """Check the ranges.

        Raises:
            ValueError: A value is out of its range.
        """
        if self.max_evaluations < 1:
            raise ValueError(f"max_evaluations must be 1 or more, got {self.max_evaluations}")
        if not (math.isfinite(self.shrinkage) and self.shrinkage >= 0):
            raise ValueError(f"shrinkage must be 0 or above, got {self.shrinkage}")


def fit_weights(
    judge: Judge,
    moments: Sequence[TunedMoment],
    base: RegionSettings,
    config: WeightsConfig,
) -> StageFit:
    """Search for the weights with the least divergence, then ask traces that were not seen.

    The search lowers the mean over the fit's snapshots of ``log(KL / KL without regions)``, with
    ``shrinkage`` times the squared weights added.

    Args:
        judge: Gives divergences.
        moments: Those to fit and those to test, one of each at least.
        base: The weights to begin with, and all that is not fitted.
        config: How long and how shy the search is.

    Raises:
        ValueError: There are no snapshots to fit or none to test.
    """
    fit = [moment.key for moment in moments if not moment.is_test]
    if not fit or len(fit) == len(moments):
        raise ValueError(
            f"expected snapshots to fit and to test, got {len(fit)} and {len(moments) - len(fit)} "
            "of them"
        )
    none = {moment.key: judge(moment.key, None) for moment in moments}

    def loss(vector: Vector) -> float:
        settings = to_settings(vector, base)
        logs = [log_kl(judge(key, settings)) - log_kl(none[key]) for key in fit]
        return float(np.mean(logs)) + config.shrinkage * float(np.square(vector).sum())

    first = start(base)
    found = coordinate_search(loss, first, *bounds(), config.max_evaluations)
    before, fitted = to_settings(first, base), to_settings(found.vector, base)
    results = tuple(
        MomentResult(
            moment.key,
            moment.trace,
            moment.is_test,
            none[moment.key],
            judge(moment.key, before),
            judge(moment.key, fitted),
        )
        for moment in moments
    )
    return StageFit(
        "weights", fitted, results, is_gain(results), found.num_evaluations, found.is_finished
    )


def most_judgements(moments: Sequence[TunedMoment], config: WeightsConfig) -> int:
    """Return the most divergences that a search asks for, each question counted once."""
    num_fit = sum(not moment.is_test for moment in moments)
    return num_fit * (config.max_evaluations + 1) + 3 * (len(moments) - num_fit)
