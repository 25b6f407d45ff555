"""The figures of a cross-validation: taggers side by side, by source, and their calibration."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from memdecay.classifier.errors import ConfigError
from memdecay.training.calibration.resampling import Estimate, bootstrap_weights, interval
from memdecay.training.calibration.scores import Scores, accuracy, calibration_error, macro_f1
from memdecay.training.calibration.sums import TraceSums, trace_sums
from memdecay.training.calibration.tokens import TaggedTokens
from memdecay.training.metrics import RegionMetrics, region_metrics

RESULTS_FORMAT = 1
NUM_RESAMPLES = 1000


@dataclass(frozen=True, slots=True)
class TaggerFigures:
    """One tagger on all held-out tokens, with 95% intervals over traces.

    Attributes:
        metrics: The figures.
        macro_f1: Macro-F1 with its interval.
        accuracy: Accuracy with its interval.
        num_traces: Traces with a labelled token.
    """

    metrics: RegionMetrics
    macro_f1: Estimate
    accuracy: Estimate
    num_traces: int

    def to_dict(self) -> dict[str, Any]:
        """Return the figures as plain data; calibration stands elsewhere."""
        figures = self.metrics.to_dict()
        del figures["ece"]
        return figures | {
            "macro_f1_interval": [self.macro_f1.low, self.macro_f1.high],
            "accuracy_interval": [self.accuracy.low, self.accuracy.high],
            "traces": self.num_traces,
        }


@dataclass(frozen=True, slots=True)
class FoldFigures:
    """What one fold was, for the record.

    Attributes:
        sources: The sources it held out.
        traces: Their traces.
        tokens: Their labelled tokens.
        epochs: Epochs trained.
        own_temperature: Fitted to its validation traces.
        crossed_temperature: Fitted to the other folds' held-out sources.
    """

    sources: tuple[str, ...]
    traces: int
    tokens: int
    epochs: int
    own_temperature: float
    crossed_temperature: float


@dataclass(frozen=True, slots=True)
class CrossValidation:
    """All figures of a cross-validation.

    Attributes:
        llm_name: Name of the LLM.
        layer: The layer read.
        taggers: Figures by tagger, the classifier's and the ceiling last.
        by_source: Macro-F1 and accuracy by source and tagger.
        calibration: ECE of the classifier by how its temperature was chosen.
        temperature: The one for sources never seen, fitted to all held-out tokens.
        folds: The folds.
    """

    llm_name: str
    layer: int
    taggers: Mapping[str, TaggerFigures]
    by_source: Mapping[str, Mapping[str, RegionMetrics]]
    calibration: Mapping[str, Estimate]
    temperature: float
    folds: Sequence[FoldFigures]

    def to_dict(self) -> dict[str, Any]:
        """Return all figures as plain data for JSON."""
        return {
            "format": RESULTS_FORMAT,
            "llm": self.llm_name,
            "layer": self.layer,
            "taggers": {name: figures.to_dict() for name, figures in self.taggers.items()},
            "by_source": {
                source: {name: _short(metrics) for name, metrics in row.items()}
                for source, row in self.by_source.items()
            },
            "ece": {name: estimate.to_dict() for name, estimate in self.calibration.items()},
            "temperature": self.temperature,
            "folds": [
                {name: getattr(fold, name) for name in FoldFigures.__slots__} for fold in self.folds
            ],
        }


def read_temperature(path: Path) -> float:
    """Return the temperature for new sources that a cross-validation has written.

    Raises:
        ConfigError: The file is missing or holds no such figures.
    """
    try:
        temperature = float(json.loads(path.read_text(encoding="utf-8"))["temperature"])
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise ConfigError(
            f"{path} holds no temperature ({type(error).__name__}); give the results.json that "
            "`memdecay cross-validate` wrote"
        ) from error
    return temperature


def tagger_figures(tokens: TaggedTokens, seed: int = 0) -> TaggerFigures:
    """Measure a tagger and resample its traces.

    Raises:
        ValueError: There are no tokens.
    """
    sums = trace_sums(tokens)
    return TaggerFigures(
        metrics=metrics_of(tokens),
        macro_f1=_estimate(sums, lambda found: macro_f1(found.confusion), seed),
        accuracy=_estimate(sums, lambda found: accuracy(found.confusion), seed),
        num_traces=len(sums.confusion),
    )


def calibration_estimate(tokens: TaggedTokens, seed: int = 0) -> Estimate:
    """Return the expected calibration error with its interval over traces."""
    return _estimate(
        trace_sums(tokens), lambda found: calibration_error(found.slots), seed, is_inflated=True
    )


def metrics_of(tokens: TaggedTokens) -> RegionMetrics:
    """Measure tokens without any resampling.

    Raises:
        ValueError: There are no tokens.
    """
    return region_metrics(torch.from_numpy(tokens.region_probs), torch.from_numpy(tokens.labels))


def _estimate(
    sums: TraceSums, score: Callable[[TraceSums], Scores], seed: int, *, is_inflated: bool = False
) -> Estimate:
    weights = bootstrap_weights(len(sums.nll), NUM_RESAMPLES, np.random.default_rng(seed))
    replicates = score(sums.weighted(weights))
    return interval(float(score(sums.total())), replicates, is_inflated=is_inflated)


def _short(metrics: RegionMetrics) -> dict[str, Any]:
    return {
        "macro_f1": metrics.macro_f1,
        "accuracy": metrics.accuracy,
        "tokens": metrics.tokens,
        "f1": {label: row["f1"] for label, row in metrics.per_region.items()},
    }
