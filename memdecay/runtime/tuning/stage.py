"""One stage of a fit: what it found, and what traces that it was not fitted to say of it."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from memdecay.classifier.region_settings import RegionSettings
from memdecay.runtime.bench.report.statistics import Interval, ratio_interval

Judge = Callable[[str, RegionSettings | None], float]
"""Takes the key of a snapshot and settings, None for a cache without regions; gives the KL."""

_LEAST_KL = 1e-9


@dataclass(frozen=True, slots=True)
class TunedMoment:
    """A snapshot that a fit may use.

    Attributes:
        key: Its key.
        trace: The trace's id.
        group: What is left out together, such as the traces of one source.
        is_test: Whether the weights are tested there, not fitted; the same for the whole group.
    """

    key: str
    trace: str
    group: int
    is_test: bool


@dataclass(frozen=True, slots=True)
class MomentResult:
    """What one snapshot says of a stage.

    Attributes:
        key: Its key.
        trace: The trace's id.
        is_test: Whether what was fitted has not seen its group.
        kl_none: Divergence without regions, nats a token.
        kl_before: With the settings that the stage began with.
        kl_after: With what it fitted.
    """

    key: str
    trace: str
    is_test: bool
    kl_none: float
    kl_before: float
    kl_after: float


@dataclass(frozen=True, slots=True)
class StageFit:
    """What a stage found.

    Attributes:
        name: ``table`` or ``weights``.
        fitted: The settings.
        moments: The results of every snapshot.
        is_kept: Whether traces that it was not fitted to say that it lowers the divergence, below
            what stood before and below that without regions.
        num_evaluations: Settings tried.
        is_finished: Whether a search came to its end.
    """

    name: str
    fitted: RegionSettings
    moments: tuple[MomentResult, ...]
    is_kept: bool
    num_evaluations: int = 1
    is_finished: bool = True

    def ratio(self, name: str = "kl_after", *, is_test: bool = True) -> Interval:
        """Return the geometric mean over traces of a divergence over that without regions.

        Args:
            name: ``kl_after`` or ``kl_before``.
            is_test: Whether the traces that the fit has not seen are meant, or those it has.
        """
        return ratio_to_none(self.moments, name, is_test=is_test)


def ratio_to_none(moments: tuple[MomentResult, ...], name: str, *, is_test: bool) -> Interval:
    """Return the geometric mean over traces of a divergence over that without regions.

    Traces count alike, however many snapshots they have.
    """
    logs: dict[str, list[float]] = {}
    for moment in moments:
        if moment.is_test == is_test:
            difference = log_kl(getattr(moment, name)) - log_kl(moment.kl_none)
            logs.setdefault(moment.trace, []).append(difference)
    means = [math.exp(float(np.mean(each))) for each in logs.values()]
    return ratio_interval(means, [1.0] * len(means))


def held_out_gain(moments: tuple[MomentResult, ...], name: str) -> float:
    """Return by how much regions lower the logarithm of the divergence on traces not seen.

    Minus infinity where a divergence is no number.
    """
    tested = [moment for moment in moments if moment.is_test]
    if not all(math.isfinite(moment.kl_none + getattr(moment, name)) for moment in tested):
        return -math.inf
    return -math.log(ratio_to_none(moments, name, is_test=True).value)


def is_gain(moments: tuple[MomentResult, ...]) -> bool:
    """Tell whether a stage lowers the divergence on traces that it has not seen."""
    return held_out_gain(moments, "kl_after") > max(held_out_gain(moments, "kl_before"), 0.0)


def log_kl(kl: float) -> float:
    """Return the logarithm of a divergence, which may be 0."""
    return math.log(max(kl, _LEAST_KL))
