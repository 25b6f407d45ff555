"""What changed against an earlier report, and whether chance alone explains it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from memdecay.classifier.regions import NUM_REGIONS, REGION_LABELS
from memdecay.training.calibration import scores
from memdecay.training.calibration.resampling import (
    Estimate,
    bootstrap_weights,
    interval,
    subset_weights,
)
from memdecay.training.calibration.sums import TraceSums
from memdecay.training.calibration.verdict.multiple import holm

PAIRED = "paired"
INDEPENDENT = "independent"


@dataclass(frozen=True, slots=True)
class DriftConfig:
    """When a change counts as drift.

    Attributes:
        alpha: Chance of any false alarm over all comparisons of a batch that has not drifted.
        min_change: The smallest change for the worse that matters, in F1 or in confidence.
        num_resamples: Permutations behind each p-value.
        seed: Of the permutations.
    """

    alpha: float = 0.05
    min_change: float = 0.03
    num_resamples: int = 4000
    seed: int = 0

    def __post_init__(self) -> None:
        """Check the ranges.

        Raises:
            ValueError: A value is out of its range.
        """
        if not 0 < self.alpha < 1:
            raise ValueError(f"alpha must lie between 0 and 1, got {self.alpha}")
        if not self.min_change >= 0:
            raise ValueError(f"min_change must be 0 or above, got {self.min_change}")
        if self.num_resamples < 1:
            raise ValueError(f"num_resamples must be 1 or above, got {self.num_resamples}")


@dataclass(frozen=True, slots=True, eq=False)
class TraceRows:
    """Traces by digest with what each adds to the figures, one row a trace."""

    digests: tuple[str, ...]
    sums: TraceSums


@dataclass(frozen=True, slots=True)
class Change:
    """One figure then and now.

    Attributes:
        quantity: ``macro_f1``, ``ece``, ``f1`` or ``confidence_gap``.
        region: The region's name; None for a figure over all of them.
        before: The figure in the earlier report; nan where undefined.
        after: The figure now; nan where undefined.
        difference: Now minus then, with its bootstrap interval.
        p_value: Chance of a change for the worse as large by shuffling the traces alone, adjusted
            for the number of comparisons; None where the figure is undefined on a side.
        detectable: The smallest change for the worse that these traces could have shown.
        is_drift: Whether it got worse by more than chance and by enough to matter.
    """

    quantity: str
    region: str | None
    before: float
    after: float
    difference: Estimate
    p_value: float | None
    detectable: float | None
    is_drift: bool


@dataclass(frozen=True, slots=True, eq=False)
class Drift:
    """A comparison with an earlier report.

    Attributes:
        method: `PAIRED` if all traces stood in the earlier report too, else `INDEPENDENT`.
        num_traces: Traces now.
        num_baseline: Traces of the earlier report that were compared with.
        changes: One for each figure that is watched.
        before: Confusion matrix then.
        after: Confusion matrix now.
    """

    method: str
    num_traces: int
    num_baseline: int
    changes: tuple[Change, ...]
    before: NDArray[np.float64]
    after: NDArray[np.float64]

    @property
    def drifted(self) -> tuple[Change, ...]:
        """The changes that count as drift."""
        return tuple(change for change in self.changes if change.is_drift)


def compare(fresh: TraceRows, baseline: TraceRows, config: DriftConfig) -> Drift:
    """Compare a batch of traces with those of an earlier report.

    The test is a permutation test over whole traces: if nothing has changed, the traces of both
    reports are exchangeable, and the observed change is one of those that shuffling them gives.
    That holds for any number of traces, so that a small batch raises no more false alarms than a
    large one. Where all fresh traces stood in the earlier report (a new classifier on the same
    traces), each trace's two results are swapped instead. Traces that only partly overlap are
    taken out of the earlier report. p-values are one-sided, for the worse, and adjusted after
    Holm.

    Args:
        fresh: The traces now, at least one.
        baseline: The traces of the earlier report, at least one.
        config: When a change counts.

    Raises:
        ValueError: A side has no traces.
    """
    if not fresh.digests or not baseline.digests:
        raise ValueError("expected traces on both sides of the comparison, got none on one")
    place = {digest: row for row, digest in enumerate(baseline.digests)}
    rng = np.random.default_rng(config.seed)
    if all(digest in place for digest in fresh.digests):
        same = baseline.sums.rows([place[digest] for digest in fresh.digests])
        swapping = _Swapping(fresh.sums, same, config.num_resamples, rng)
        return _test(swapping, PAIRED, config)
    own = set(fresh.digests)
    others = [row for row, digest in enumerate(baseline.digests) if digest not in own]
    # With nothing left the overlap can't be helped.
    rest = baseline.sums.rows(others) if others else baseline.sums
    shuffling = _Shuffling(fresh.sums, rest, config.num_resamples, rng)
    return _test(shuffling, INDEPENDENT, config)


class _Sampling:
    """Two sides and how they are resampled, one resample a row."""

    def __init__(
        self, after: TraceSums, before: TraceSums, num_resamples: int, rng: np.random.Generator
    ) -> None:
        self.after, self.before = after, before
        self.num_resamples, self.rng = num_resamples, rng

    def permuted(self) -> tuple[TraceSums, TraceSums]:
        """Return (after, before) with traces exchanged at random."""
        raise NotImplementedError

    def bootstrapped(self) -> tuple[TraceSums, TraceSums]:
        """Return (after, before) with traces drawn anew."""
        raise NotImplementedError


class _Shuffling(_Sampling):
    def permuted(self) -> tuple[TraceSums, TraceSums]:
        num_after = len(self.after.nll)
        pool = self.after.joined(self.before)
        weights = subset_weights(len(pool.nll), num_after, self.num_resamples, self.rng)
        return pool.weighted(weights), pool.weighted(1 - weights)

    def bootstrapped(self) -> tuple[TraceSums, TraceSums]:
        sides = (self.after, self.before)
        drawn = [
            side.weighted(bootstrap_weights(len(side.nll), self.num_resamples, self.rng))
            for side in sides
        ]
        return drawn[0], drawn[1]


class _Swapping(_Sampling):
    def permuted(self) -> tuple[TraceSums, TraceSums]:
        num_traces = len(self.after.nll)
        swapped = self.rng.integers(0, 2, (self.num_resamples, num_traces)).astype(np.float64)
        weights = np.concatenate([1 - swapped, swapped], axis=1)
        pool = self.after.joined(self.before)
        return pool.weighted(weights), pool.weighted(1 - weights)

    def bootstrapped(self) -> tuple[TraceSums, TraceSums]:
        weights = bootstrap_weights(len(self.after.nll), self.num_resamples, self.rng)
        return self.after.weighted(weights), self.before.weighted(weights)


def _test(sampling: _Sampling, method: str, config: DriftConfig) -> Drift:
    after, before = sampling.after.total(), sampling.before.total()
    observed = _badness(after) - _badness(before)
    null = _null(sampling)
    # Undefined in a shuffle (no such region on one side): counted as extreme, to be careful.
    extreme = ~(null < observed - 1e-12)
    p_values = (1 + extreme.sum(axis=0)) / (1 + len(null))
    p_values[np.isnan(observed)] = np.nan
    adjusted = holm(p_values)
    is_drift = (adjusted < config.alpha) & (observed >= config.min_change)
    drawn_after, drawn_before = sampling.bootstrapped()
    differences = _watched(drawn_after) - _watched(drawn_before)
    num_tests = int((~np.isnan(p_values)).sum())
    then, now = _watched(before), _watched(after)
    changes = tuple(
        Change(
            quantity=quantity,
            region=region,
            before=float(then[i]),
            after=float(now[i]),
            difference=interval(float(now[i] - then[i]), differences[:, i]),
            p_value=None if np.isnan(adjusted[i]) else float(adjusted[i]),
            detectable=_detectable(null[:, i], num_tests, config),
            is_drift=bool(is_drift[i]),
        )
        for i, (quantity, region) in enumerate(_names())
    )
    return Drift(
        method=method,
        num_traces=len(sampling.after.nll),
        num_baseline=len(sampling.before.nll),
        changes=changes,
        before=before.confusion,
        after=after.confusion,
    )


def _null(sampling: _Sampling) -> NDArray[np.float64]:
    after, before = sampling.permuted()
    return _badness(after) - _badness(before)


def _detectable(null: NDArray[np.float64], num_tests: int, config: DriftConfig) -> float | None:
    defined = null[~np.isnan(null)]
    if not len(defined) or not num_tests:
        return None
    critical = float(np.quantile(defined, 1 - config.alpha / num_tests))
    return max(critical, config.min_change)


def _names() -> Iterator[tuple[str, str | None]]:
    yield "macro_f1", None
    yield "ece", None
    for quantity in ("f1", "confidence_gap"):
        for label in REGION_LABELS:
            yield quantity, label


def _watched(sums: TraceSums) -> NDArray[np.float64]:
    """Return the figures that are watched, ``(..., tests)``, in the order of `_names`."""
    overall = np.stack(
        [scores.macro_f1(sums.confusion), scores.calibration_error(sums.slots)], axis=-1
    )
    return np.concatenate(
        [overall, scores.f1(sums.confusion), scores.confidence_gap(sums)], axis=-1
    )


def _badness(sums: TraceSums) -> NDArray[np.float64]:
    """Return the watched figures such that more is worse, ``(..., tests)``."""
    watched = _watched(sums)
    better_high = np.zeros(watched.shape[-1], np.bool_)
    better_high[[0, *range(2, 2 + NUM_REGIONS)]] = True
    return np.where(better_high, -watched, np.abs(watched))
