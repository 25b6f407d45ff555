"""How good region probabilities are: F1, calibration and the temperature that mends it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from scipy.optimize import minimize_scalar
from sklearn.metrics import confusion_matrix, precision_recall_fscore_support
from torch import Tensor
from torch.nn import functional
from torchmetrics.functional.classification import multiclass_calibration_error

from memdecay.classifier.regions import NUM_REGIONS, REGION_LABELS

_NUM_BINS = 15
_TEMPERATURE_RANGE = (0.05, 20.0)


@dataclass(frozen=True, slots=True)
class RegionMetrics:
    """Figures over labelled tokens.

    Attributes:
        macro_f1: Mean F1 over the regions that occur in the labels or the predictions.
        accuracy: Share of tokens whose most probable region is right.
        ece: Expected calibration error over 15 equal bins of confidence.
        tokens: Labelled tokens.
        per_region: Precision, recall, F1 and support by region name.
        confusion: ``confusion[i][j]`` tokens of region i were tagged j.
    """

    macro_f1: float
    accuracy: float
    ece: float
    tokens: int
    per_region: dict[str, dict[str, float]]
    confusion: tuple[tuple[int, ...], ...]

    def to_dict(self) -> dict[str, Any]:
        """Return the figures as plain data for JSON."""
        return {
            "macro_f1": self.macro_f1,
            "accuracy": self.accuracy,
            "ece": self.ece,
            "tokens": self.tokens,
            "per_region": self.per_region,
            "confusion": [list(row) for row in self.confusion],
        }


def region_metrics(region_probs: Tensor, labels: Tensor) -> RegionMetrics:
    """Measure region probabilities against labels.

    Args:
        region_probs: ``(tokens, num_regions)``, float32.
        labels: ``(tokens,)``, int64, all in 0..num_regions-1.

    Raises:
        ValueError: There are no tokens, or the shapes do not fit.
    """
    if labels.numel() == 0:
        raise ValueError("expected at least one labelled token, got none")
    if region_probs.shape != (len(labels), NUM_REGIONS):
        raise ValueError(
            f"region_probs must have shape {(len(labels), NUM_REGIONS)}, "
            f"got {tuple(region_probs.shape)}"
        )
    predicted = region_probs.argmax(dim=-1)
    confusion = confusion_matrix(labels.numpy(), predicted.numpy(), labels=range(NUM_REGIONS))
    precision, recall, f1, support = precision_recall_fscore_support(
        labels.numpy(), predicted.numpy(), labels=range(NUM_REGIONS), zero_division=0.0
    )
    occurs = (confusion.sum(axis=0) + confusion.sum(axis=1)) > 0
    return RegionMetrics(
        macro_f1=float(f1[occurs].mean()),
        accuracy=float((predicted == labels).float().mean()),
        ece=float(
            multiclass_calibration_error(region_probs, labels, NUM_REGIONS, n_bins=_NUM_BINS)
        ),
        tokens=len(labels),
        per_region={
            label: {
                "precision": float(precision[index]),
                "recall": float(recall[index]),
                "f1": float(f1[index]),
                "support": int(support[index]),
            }
            for index, label in enumerate(REGION_LABELS)
        },
        confusion=tuple(tuple(int(count) for count in row) for row in confusion),
    )


def fit_temperature(logits: Tensor, labels: Tensor) -> float:
    """Find the temperature under which held-out labels are most probable.

    Args:
        logits: ``(tokens, num_regions)``, float32.
        labels: ``(tokens,)``, int64.

    Returns:
        The divisor of the logits with the lowest negative log-likelihood; 1.0 without tokens.

    Source:
        Guo et al. 2017, On Calibration of Modern Neural Networks, section 4.2.
    """
    if labels.numel() == 0:
        return 1.0

    def loss(log_temperature: float) -> float:
        return float(functional.cross_entropy(logits / math.exp(log_temperature), labels))

    low, high = (math.log(bound) for bound in _TEMPERATURE_RANGE)
    found = minimize_scalar(loss, bounds=(low, high), method="bounded", options={"xatol": 1e-5})
    return math.exp(found.x)
