"""Fit how regions are scored and fade to the attention that came, by least squares."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import Ridge

from memdecay.classifier.errors import TraceError
from memdecay.classifier.regions import Region, RegionDecay, RegionTable
from memdecay.runtime.config import FeedbackConfig
from memdecay.runtime.tuning.evidence import Evidence

_AGE_UNIT = 1000.0
"""Tokens of age that a slope stands for, so that the penalty is fair to levels and slopes."""

_PENALTY = 10.0
_DIGITS = 3
_ORDINARY = Region.ORDINARY_CONTEXT


@dataclass(frozen=True, slots=True)
class TableConfig:
    """How a table is fitted.

    Attributes:
        prior_weight: Exponent of the decayed score against attention that the table is for.
        min_tokens: Regions of which fewer tokens were looked at get ordinary context's row.
        kept: Regions that never fade, whatever the fit says.
    """

    prior_weight: float = FeedbackConfig().prior_weight
    min_tokens: int = 200
    kept: frozenset[Region] = frozenset()

    def __post_init__(self) -> None:
        """Check the ranges.

        Raises:
            ValueError: A value is out of its range.
        """
        if not (math.isfinite(self.prior_weight) and self.prior_weight > 0):
            raise ValueError(
                "a table can't be fitted where the decayed score plays no part: prior_weight must "
                f"be above 0, got {self.prior_weight}"
            )
        if self.min_tokens < 1:
            raise ValueError(f"min_tokens must be 1 or more, got {self.min_tokens}")


def fit_table(evidence: Sequence[Evidence], config: TableConfig) -> RegionTable:
    """Fit the scores and decays that explain best what attention and foresight left unexplained.

    A ridge regression on each region's probability, alone and times age, gives it a level and a
    slope: the logarithm of the decayed score to the power ``prior_weight``, in the policy's own
    formula. Levels count from ordinary context's. A slope above 0 counts as 0. The chat template's
    tokens have a level and slope of their own, so that they bend no region's; these are dropped.

    Args:
        evidence: Of one moment or more.
        config: How to fit.

    Raises:
        TraceError: Too few of the tokens are ordinary context.
    """
    columns = np.vstack([_columns(each) for each in evidence])
    counts = columns.sum(axis=0)
    if counts[_ORDINARY] < config.min_tokens:
        raise TraceError(
            f"expected {config.min_tokens} tokens of ordinary context or more, from which all "
            f"scores are counted, in each part of the traces, got {counts[_ORDINARY]:.0f}; give "
            "more --traces, or fit no table with --stages weights"
        )
    # What has too few tokens counts as ordinary context, which it is scored as too.
    is_rare = counts < config.min_tokens
    columns[:, _ORDINARY] += columns[:, is_rare].sum(axis=1)
    columns[:, is_rare] = 0.0
    ages = np.concatenate([each.ages for each in evidence])[:, None] / _AGE_UNIT
    unexplained = np.concatenate([each.unexplained for each in evidence])
    inputs = np.hstack([columns, columns * ages])
    levels, slopes = np.split(Ridge(alpha=_PENALTY).fit(inputs, unexplained).coef_, 2)
    levels = np.where(is_rare, 0.0, levels - levels[_ORDINARY])
    slopes = np.where(is_rare, slopes[_ORDINARY], slopes).clip(max=0.0)
    rows = {
        region.label: RegionDecay(
            _rounded(math.exp(levels[region] / config.prior_weight)),
            _rounded(abs(float(slopes[region])) / (_AGE_UNIT * config.prior_weight)),
        )
        for region in Region
    }
    return never_fading(RegionTable(**rows), config.kept)


def never_fading(table: RegionTable, regions: Iterable[Region]) -> RegionTable:
    """Return a table in which some regions keep their score however old they get."""
    rows = {region.label: replace(table[region], decay=0.0) for region in regions}
    return replace(table, **rows)


def _columns(evidence: Evidence) -> NDArray[np.float64]:
    """Return each region's probability and the template's flag, ``(n, NUM_REGIONS + 1)``."""
    template = evidence.is_template[:, None]
    return np.hstack([evidence.region_probs * ~template, template]).astype(np.float64)


def _rounded(value: float) -> float:
    return float(f"{value:.{_DIGITS}g}")
