"""Fit the regions' weights to divergence on some traces and let others decide about them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from memdecay.classifier.region_settings import RegionSettings
from memdecay.runtime.bench.report.statistics import Interval, ratio_interval
from memdecay.runtime.tuning.parameters import bounds, start, to_settings, without_regions
from memdecay.runtime.tuning.search import Vector, coordinate_search

Judge = Callable[[str, RegionSettings | None], float]
"""Takes the key of a snapshot and settings, None for a cache without regions; gives the KL."""

OnProgress = Callable[[int, int], None]
_LEAST_KL = 1e-9


@dataclass(frozen=True, slots=True)
class FitConfig:
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


@dataclass(frozen=True, slots=True)
class MomentResult:
    """What one snapshot says.

    Attributes:
        key: Its key.
        trace: The trace's id.
        is_test: Whether the fit has not seen it.
        kl_none: Divergence without regions, nats a token.
        kl_default: With regions and nothing fitted.
        kl_fitted: With the fitted weights.
    """

    key: str
    trace: str
    is_test: bool
    kl_none: float
    kl_default: float
    kl_fitted: float


@dataclass(frozen=True, slots=True)
class Fit:
    """What a fit found.

    Attributes:
        fitted: Settings with the fitted weights.
        chosen: The same where they helped on the test traces; else regions without weights, where
            those helped; else settings that make regions play no part.
        is_chosen: Whether the fitted ones were chosen.
        moments: The results of every snapshot.
        num_evaluations: Settings tried.
        is_finished: Whether the search came to its end.
    """

    fitted: RegionSettings
    chosen: RegionSettings
    is_chosen: bool
    moments: tuple[MomentResult, ...]
    num_evaluations: int
    is_finished: bool

    @property
    def has_regions(self) -> bool:
        """Whether regions play any part in the chosen settings."""
        return len(set(self.chosen.table)) > 1

    def ratio(self, *, is_test: bool, name: str = "kl_fitted") -> Interval:
        """Return the geometric mean over traces of a divergence over that without regions.

        Args:
            is_test: Whether the test traces or those of the fit are meant.
            name: ``kl_fitted`` or ``kl_default``.
        """
        logs: dict[str, list[float]] = {}
        for moment in self.moments:
            if moment.is_test == is_test:
                difference = _log(getattr(moment, name)) - _log(moment.kl_none)
                logs.setdefault(moment.trace, []).append(difference)
        means = [math.exp(float(np.mean(each))) for each in logs.values()]
        return ratio_interval(means, [1.0] * len(means))


def fit_weights(
    judge: Judge,
    fit: Sequence[tuple[str, str]],
    test: Sequence[tuple[str, str]],
    base: RegionSettings,
    config: FitConfig,
    on_progress: OnProgress | None = None,
) -> Fit:
    """Search for the weights with the least divergence, then ask traces that were not seen.

    The search lowers the mean over the fit's snapshots of ``log(KL / KL without regions)``, with
    ``shrinkage`` times the squared weights added.

    Args:
        judge: Gives divergences.
        fit: Keys of snapshots with their traces, at least one.
        test: Others, of other traces, at least one.
        base: What is not fitted.
        config: How long and how shy the search is.
        on_progress: Called with the divergences that were computed and those in all; the number in
            all is the most there may be.

    Raises:
        ValueError: There are no snapshots to fit or none to test.
    """
    if not fit or not test:
        raise ValueError(
            f"expected snapshots to fit and to test, got {len(fit)} and {len(test)} of them"
        )
    counted = _Counted(judge, _num_judgements(fit, test, config), on_progress)
    none = {key: counted(key, None) for key, _ in (*fit, *test)}

    def loss(vector: Vector) -> float:
        settings = to_settings(vector, base)
        logs = [_log(counted(key, settings)) - _log(none[key]) for key, _ in fit]
        return float(np.mean(logs)) + config.shrinkage * float(np.square(vector).sum())

    found = coordinate_search(loss, start(), *bounds(), config.max_evaluations)
    fitted, default = to_settings(found.vector, base), to_settings(start(), base)
    moments = tuple(
        MomentResult(
            key,
            trace,
            is_test,
            none[key],
            counted(key, default),
            counted(key, fitted),
        )
        for is_test, keys in ((False, fit), (True, test))
        for key, trace in keys
    )
    counted.finish()
    result = Fit(fitted, fitted, True, moments, found.num_evaluations, found.is_finished)
    gain, default_gain = _gain(result, "kl_fitted"), _gain(result, "kl_default")
    if gain > max(default_gain, 0.0):
        return result
    chosen = default if default_gain > 0 else without_regions(base)
    return replace(result, chosen=chosen, is_chosen=False)


def _gain(fit: Fit, name: str) -> float:
    """Return by how much regions lower the logarithm of the test traces' divergence."""
    tested = [moment for moment in fit.moments if moment.is_test]
    if not all(math.isfinite(moment.kl_none + getattr(moment, name)) for moment in tested):
        return -math.inf
    return -math.log(fit.ratio(is_test=True, name=name).value)


class _Counted:
    """Asks the judge once for each question and reports how many were asked."""

    def __init__(self, judge: Judge, total: int, on_progress: OnProgress | None) -> None:
        self._judge = judge
        self._total = total
        self._on_progress = on_progress
        self._known: dict[tuple[str, RegionSettings | None], float] = {}

    def __call__(self, key: str, settings: RegionSettings | None) -> float:
        question = key, settings
        if question not in self._known:
            self._known[question] = self._judge(key, settings)
            if self._on_progress:
                self._on_progress(len(self._known), self._total)
        return self._known[question]

    def finish(self) -> None:
        if self._on_progress:
            self._on_progress(self._total, self._total)


def _num_judgements(
    fit: Sequence[tuple[str, str]], test: Sequence[tuple[str, str]], config: FitConfig
) -> int:
    return len(fit) * (config.max_evaluations + 1) + 3 * len(test)


def _log(kl: float) -> float:
    return math.log(max(kl, _LEAST_KL))
