"""All figures of a classifier on some tokens, with intervals over traces."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from memdecay.classifier.regions import REGION_LABELS
from memdecay.training.calibration import scores
from memdecay.training.calibration.resampling import Estimate, bootstrap_weights, interval
from memdecay.training.calibration.sums import Sums, TraceSums, region_slots, trace_sums
from memdecay.training.calibration.tokens import TaggedTokens

_RegionScore = Callable[[Sums], NDArray[np.float64]]


@dataclass(frozen=True, slots=True)
class CalibrationFigures:
    """How far probabilities can be trusted.

    Attributes:
        ece: Expected calibration error over 15 bins of confidence.
        classwise_ece: Mean over regions of the error of the region's own probability.
        brier: Brier score over all regions, 0 to 2.
        nll: Negative log-likelihood, nats a token.
        bins: ``(num_slots, 3)``: tokens, summed confidence and hits by bin of confidence.
    """

    ece: Estimate
    classwise_ece: Estimate
    brier: Estimate
    nll: Estimate
    bins: Sums

    def to_dict(self) -> dict[str, Any]:
        """Return the figures as plain data for JSON."""
        names = ("ece", "classwise_ece", "brier", "nll")
        return {name: getattr(self, name).to_dict() for name in names} | {
            "bins": [
                {"tokens": int(count), "confidence": confidence / count, "accuracy": hits / count}
                for count, confidence, hits in self.bins.tolist()
                if count
            ]
        }


@dataclass(frozen=True, slots=True)
class RegionFigures:
    """How well one region is found.

    Attributes:
        precision: Share of the tokens tagged so that are.
        recall: Share of its tokens that are tagged so.
        f1: Their harmonic mean; nan where the region never occurs.
        confidence_gap: Mean confidence minus precision of the tokens tagged so; nan without any.
        support: Its tokens.
        num_traces: Traces that hold it.
    """

    precision: Estimate
    recall: Estimate
    f1: Estimate
    confidence_gap: Estimate
    support: int
    num_traces: int


@dataclass(frozen=True, slots=True)
class Figures:
    """Figures over labelled tokens.

    Attributes:
        macro_f1: Mean F1 of the regions that occur.
        accuracy: Share of tokens tagged right.
        per_region: By region name.
        before: Calibration before temperature scaling.
        after: Calibration of the classifier as it is.
        sums: What each trace adds; the total of ``confusion`` is the confusion matrix.
    """

    macro_f1: Estimate
    accuracy: Estimate
    per_region: Mapping[str, RegionFigures]
    before: CalibrationFigures
    after: CalibrationFigures
    sums: TraceSums


def figures(
    tokens: TaggedTokens,
    undivided: TaggedTokens,
    num_resamples: int,
    rng: np.random.Generator,
) -> Figures:
    """Measure tokens.

    Args:
        tokens: Tokens with the classifier's probabilities, at least one.
        undivided: The same with the probabilities before temperature scaling.
        num_resamples: Bootstrap samples behind each interval.
        rng: Where randomness comes from.

    Raises:
        ValueError: There are no tokens.
    """
    if not len(tokens):
        raise ValueError("expected at least one labelled token, got none")
    sums = trace_sums(tokens)
    weights = bootstrap_weights(len(sums.nll), num_resamples, rng)
    if len(sums.nll) == 1:
        weights = weights[:0]  # One trace says nothing about others.
    total, resampled = sums.total(), sums.weighted(weights)
    return Figures(
        macro_f1=_estimate(scores.macro_f1, total.confusion, resampled.confusion),
        accuracy=_estimate(scores.accuracy, total.confusion, resampled.confusion),
        per_region=_per_region(sums, total, resampled),
        before=_calibration(undivided, trace_sums(undivided), weights),
        after=_calibration(tokens, sums, weights),
        sums=sums,
    )


def _estimate(score: _RegionScore, total: Sums, resampled: Sums) -> Estimate:
    return interval(float(score(total)), score(resampled))


def _per_region(
    sums: TraceSums, total: TraceSums, resampled: TraceSums
) -> dict[str, RegionFigures]:
    def estimates(score: _RegionScore) -> list[Estimate]:
        return _each(score(total.confusion), score(resampled.confusion))

    gaps = _each(scores.confidence_gap(total), scores.confidence_gap(resampled))
    held = (sums.confusion.sum(axis=2) > 0).sum(axis=0)
    support = total.confusion.sum(axis=1)
    columns = zip(
        REGION_LABELS,
        estimates(scores.precision),
        estimates(scores.recall),
        estimates(scores.f1),
        gaps,
        support.tolist(),
        held.tolist(),
        strict=True,
    )
    return {
        label: RegionFigures(precision, recall, f1, gap, int(tokens), int(traces))
        for label, precision, recall, f1, gap, tokens, traces in columns
    }


def _each(values: NDArray[np.float64], replicates: NDArray[np.float64]) -> list[Estimate]:
    return [interval(float(value), replicates[:, i]) for i, value in enumerate(values)]


def _calibration(
    tokens: TaggedTokens, sums: TraceSums, weights: NDArray[np.float64]
) -> CalibrationFigures:
    total, resampled = sums.total(), sums.weighted(weights)
    by_region = region_slots(tokens)
    return CalibrationFigures(
        ece=interval(
            float(scores.calibration_error(total.slots)),
            scores.calibration_error(resampled.slots),
            is_inflated=True,
        ),
        classwise_ece=interval(
            float(scores.classwise_error(by_region.sum(axis=0))),
            scores.classwise_error(np.tensordot(weights, by_region, axes=(1, 0))),
            is_inflated=True,
        ),
        brier=interval(float(scores.mean_brier(total)), scores.mean_brier(resampled)),
        nll=interval(float(scores.mean_nll(total)), scores.mean_nll(resampled)),
        bins=total.slots,
    )
