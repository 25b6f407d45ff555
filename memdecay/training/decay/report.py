"""Decay calibration: curves, fits and the region settings that follow from them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from memdecay.classifier.errors import TraceError
from memdecay.classifier.hindsight import AgeBuckets
from memdecay.classifier.llm import LanguageModel
from memdecay.classifier.region_settings import RegionSettings
from memdecay.classifier.regions import Region, RegionDecay, RegionTable
from memdecay.data.hindsight.measured import (
    AlignedTrace,
    MeasureAttention,
    align_trace,
    measure_traces,
)
from memdecay.data.trace import Trace
from memdecay.training.calibration.resampling import Estimate, bootstrap_weights
from memdecay.training.decay.fit import RegionFit, fit_region
from memdecay.training.decay.survival import SurvivalCurves, TraceSums, survival_curves

Progress = Callable[[int, int], None]
MADE_BY = "memdecay calibrate-decay"


@dataclass(frozen=True, slots=True)
class DecayConfig:
    """How decay is measured.

    Attributes:
        max_tokens: First tokens of each trace that are read.
        min_age: The least age in tokens that is fitted. Nearer attention serves the sentence that
            is being read, and the cache never evicts its newest tokens.
        threshold: Lift below which a token counts as forgotten, for the survival in tokens.
        per_octave: Points of a curve for each doubling of the age.
        min_queries: Points that rest on fewer queries are left out.
        min_tokens: Regions of fewer tokens have no fit of their own.
        num_resamples: Bootstrap samples of whole traces.
        seed: Of the bootstrap.
    """

    max_tokens: int = 4096
    min_age: int = 128
    threshold: float = 0.1
    per_octave: int = 2
    min_queries: int = 500
    min_tokens: int = 200
    num_resamples: int = 500
    seed: int = 0

    def __post_init__(self) -> None:
        """Check the ranges.

        Raises:
            ValueError: A value is out of its range.
        """
        names = ("max_tokens", "min_age", "per_octave", "min_queries", "min_tokens")
        for name in (*names, "num_resamples"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be 1 or more, got {getattr(self, name)}")
        if not (math.isfinite(self.threshold) and self.threshold > 0):
            raise ValueError(f"threshold must be above 0, got {self.threshold}")


@dataclass(frozen=True, slots=True)
class DecayReport:
    """What was measured.

    Attributes:
        model: The language model's name.
        config: How it was measured.
        num_traces: Traces read.
        num_cut: Of them those that were longer than ``config.max_tokens``.
        curves: Attention by region and age.
        fits: Each region's fit in the order of `Region`; None where there was too little.
        pooled: The fit of all regions' tokens together; None where even these were too few.
    """

    model: str
    config: DecayConfig
    num_traces: int
    num_cut: int
    curves: SurvivalCurves
    fits: tuple[RegionFit | None, ...]
    pooled: RegionFit | None

    @property
    def used_fits(self) -> tuple[RegionFit, ...]:
        """Each region's fit, in its place that of all tokens where the region was seen too little.

        A default row would be in another unit: its score is no attention.

        Raises:
            TraceError: All tokens together were seen too little.
        """
        if self.pooled is None:
            raise TraceError(
                f"the {self.num_traces} traces are too short to see how anything fades from an age "
                f"of {self.config.min_age} tokens on; give more or longer traces, or lower "
                "--min-age"
            )
        return tuple(self.pooled if fit is None else fit for fit in self.fits)

    @property
    def unit(self) -> float:
        """The lift that an initial score of 1 in the settings stands for.

        Raises:
            TraceError: As for `used_fits`.
        """
        return min(fit.score.value for fit in self.used_fits)

    def settings(self) -> RegionSettings:
        """Return the fitted table, scaled so that the lowest initial score is 1.

        Raises:
            TraceError: As for `used_fits`.
        """
        rows = {
            region.label: self._row(fit) for region, fit in zip(Region, self.used_fits, strict=True)
        }
        return RegionSettings(RegionTable(**rows), model=self.model, made_by=MADE_BY)

    def _row(self, fit: RegionFit) -> RegionDecay:
        score = float(f"{fit.score.value / self.unit:.4g}")
        return RegionDecay(score, float(f"{fit.decay.value:.4g}"))

    def to_dict(self) -> dict[str, Any]:
        """Return the report as plain data for JSON; what is undefined or infinite is null.

        Raises:
            TraceError: As for `used_fits`.
        """
        curves = self.curves
        bands = curves.bands()
        return {
            "model": self.model,
            "config": asdict(self.config),
            "traces": self.num_traces,
            "traces_cut": self.num_cut,
            "ages": [
                {"from": low, "to": high - 1}
                for low, high in zip(curves.buckets.edges, curves.buckets.edges[1:], strict=False)
            ],
            "regions": {
                region.label: {
                    "tokens": int(curves.num_tokens[region]),
                    "traces": int(curves.num_traces[region]),
                    "lift": _plain(curves.lifts[region]),
                    "lift_low": None if bands is None else _plain(bands[0][region]),
                    "lift_high": None if bands is None else _plain(bands[1][region]),
                    "fit": None if fit is None else _fit_data(fit),
                }
                for region, fit in zip(Region, self.fits, strict=True)
            },
            "all_regions": {"fit": None if self.pooled is None else _fit_data(self.pooled)},
            "lift_of_score_1": self.unit,
            "region_table": self.settings().table.to_dict(),
        }


def measure_decay(
    traces: Sequence[Trace],
    llm: LanguageModel,
    measure: MeasureAttention,
    config: DecayConfig | None = None,
    on_progress: Progress | None = None,
) -> DecayReport:
    """Run labelled traces with nothing evicted, and fit how each region fades.

    Args:
        traces: Labelled traces, at least one.
        llm: The language model.
        measure: See `memdecay.runtime.hindsight.received_attention`.
        config: Settings.
        on_progress: Called with the tokens read and the tokens in all after each trace.

    Raises:
        ValueError: There are no traces.
        ModelError: The tokenizer gives no character offsets.
    """
    config = config or DecayConfig()
    if not traces:
        raise ValueError("expected at least one trace, got none")
    aligned = [align_trace(trace, llm, config.max_tokens) for trace in traces]
    buckets = AgeBuckets.log_spaced(_longest(aligned), config.per_octave)
    measured = measure_traces(aligned, llm, measure, buckets, on_progress)
    sums = [TraceSums.of(trace) for trace in measured]
    rng = np.random.default_rng(config.seed)
    weights = bootstrap_weights(len(sums), config.num_resamples, rng)
    curves = survival_curves(sums, buckets, weights, config.min_queries)
    together = survival_curves(
        [trace.pooled() for trace in sums], buckets, weights, config.min_queries
    )
    return DecayReport(
        model=llm.name,
        config=config,
        num_traces=len(sums),
        num_cut=sum(trace.is_cut for trace in aligned),
        curves=curves,
        fits=tuple(
            fit_region(curves, region, config.min_age, config.threshold)
            if curves.num_tokens[region] >= config.min_tokens
            else None
            for region in Region
        ),
        pooled=fit_region(together, 0, config.min_age, config.threshold),
    )


def _longest(aligned: Sequence[AlignedTrace]) -> int:
    return max(1, *(trace.tokens.num_tokens - 1 for trace in aligned))


def _fit_data(fit: RegionFit) -> dict[str, Any]:
    return {
        "lift": _estimate(fit.score),
        "decay": _estimate(fit.decay),
        "survival_tokens": _estimate(fit.survival_tokens),
        "r_squared": fit.r_squared,
        "points": fit.num_points,
    }


def _estimate(estimate: Estimate) -> dict[str, float | None]:
    return {name: _finite(value) for name, value in estimate.to_dict().items()}


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None


def _plain(values: Any) -> list[float | None]:
    return [_finite(float(value)) for value in values]
