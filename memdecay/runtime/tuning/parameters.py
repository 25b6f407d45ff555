"""The few numbers that are fitted, as one vector and as settings of the regions."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from memdecay.classifier.region_settings import RegionSettings
from memdecay.classifier.regions import NUM_REGIONS, UNTAGGED_TABLE, Region, RegionTable
from memdecay.runtime.config import FeedbackConfig

FITTED_REGIONS = tuple(region for region in Region if region is not Region.ORDINARY_CONTEXT)
"""Regions with a weight of their own: only differences count, ordinary context stays at 0."""

PARAMETER_NAMES = (*(region.label for region in FITTED_REGIONS), "template", "prior")
NUM_PARAMETERS = len(PARAMETER_NAMES)
_PRIOR_UNIT = 0.125
_MOST_WEIGHT = 4.0
_MOST_PRIOR = 0.5


def start(base: RegionSettings) -> NDArray[np.float64]:
    """Return the vector that stands for the weights and the prior of some settings."""
    prior = FeedbackConfig().prior_weight if base.prior_weight is None else base.prior_weight
    weights = [*(base.weights[region] for region in FITTED_REGIONS), base.template_weight]
    steps = (prior - FeedbackConfig().prior_weight) / _PRIOR_UNIT
    return np.array([*(each - base.weights[Region.ORDINARY_CONTEXT] for each in weights), steps])


def bounds() -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the least and the largest value that a search gives each parameter."""
    default = FeedbackConfig().prior_weight
    low, high = np.full(NUM_PARAMETERS, -_MOST_WEIGHT), np.full(NUM_PARAMETERS, _MOST_WEIGHT)
    low[-1], high[-1] = -default / _PRIOR_UNIT, (_MOST_PRIOR - default) / _PRIOR_UNIT
    return low, high


def to_settings(vector: NDArray[np.float64], base: RegionSettings) -> RegionSettings:
    """Return settings with these parameters; the rest is the base's.

    Args:
        vector: ``(NUM_PARAMETERS,)``; weights in nats, the prior's weight in eighths from its
            default, so that one step of each moves a ranking about as much.
        base: What is not fitted.
    """
    numbers = [round(float(value), 4) for value in vector]
    weights = [0.0] * NUM_REGIONS
    for region, value in zip(FITTED_REGIONS, numbers, strict=False):
        weights[region] = value
    prior = FeedbackConfig().prior_weight + _PRIOR_UNIT * numbers[-1]
    return replace(
        base,
        weights=tuple(weights),
        template_weight=numbers[-2],
        prior_weight=round(max(prior, 0.0), 4),
    )


def without_regions(base: RegionSettings) -> RegionSettings:
    """Return settings under which a tagged cache does what an untagged one does.

    Every region is scored as ordinary context and weighs nothing.
    """
    ordinary = UNTAGGED_TABLE.ordinary_context
    table = RegionTable(**{region.label: ordinary for region in Region})
    return RegionSettings(table=table, model=base.model, made_by=base.made_by)
