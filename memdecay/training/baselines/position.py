"""The baseline that knows where a token stands and who wrote it, and nothing of what it says."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.ensemble import HistGradientBoostingClassifier
from torch import Tensor

from memdecay.classifier.features import ROLES
from memdecay.classifier.regions import NUM_REGIONS
from memdecay.training.chunks import UNLABELLED, WindowSource

_NUM_COLUMNS = 3 + len(ROLES)
"""The features it may see: the three logarithms of counts and the role, which come first."""

_MAX_TOKENS = 50_000
"""Neighbouring tokens have nearly equal features, so that evenly drawn ones say as much."""


@dataclass(frozen=True, slots=True)
class PositionBaseline:
    """A fitted baseline.

    Attributes:
        model: The boosted trees; their classes are the regions that occurred.
    """

    model: HistGradientBoostingClassifier

    def region_probs(self, source: WindowSource, indices: Sequence[int]) -> tuple[Tensor, Tensor]:
        """Return probabilities and labels as `memdecay.training.predict.predict_logits` does.

        Returns:
            Region probabilities ``(tokens, num_regions)``, float32, and labels ``(tokens,)``,
            int64, of the labelled tokens in order.
        """
        features, labels = _labelled_tokens(source, indices)
        probs = np.zeros((len(labels), NUM_REGIONS), np.float32)
        if len(labels):
            probs[:, self.model.classes_] = self.model.predict_proba(features)
        return torch.from_numpy(probs), torch.from_numpy(labels)


def fit_position_baseline(
    source: WindowSource, indices: Sequence[int], seed: int = 0
) -> PositionBaseline:
    """Fit boosted trees to the position features of labelled tokens.

    Regions weigh by the square root of their share, as they do by default in the network's loss.

    Args:
        source: The windows.
        indices: Which of them to train on.
        seed: Seed of the trees.

    Raises:
        ValueError: No token is labelled.
    """
    features, labels = _labelled_tokens(source, indices)
    if not len(labels):
        raise ValueError("expected at least one labelled token to train on, got none")
    drawn = np.linspace(0, len(labels) - 1, min(len(labels), _MAX_TOKENS)).astype(np.int64)
    features, labels = features[drawn], labels[drawn]
    counts = np.bincount(labels, minlength=NUM_REGIONS)
    model = HistGradientBoostingClassifier(
        max_iter=60, max_leaf_nodes=15, min_samples_leaf=50, early_stopping=False, random_state=seed
    )
    model.fit(features, labels, sample_weight=counts[labels] ** -0.5)
    return PositionBaseline(model)


def _labelled_tokens(
    source: WindowSource, indices: Sequence[int]
) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    features, labels = [np.zeros((0, _NUM_COLUMNS), np.float32)], [np.zeros(0, np.int64)]
    for index in indices:
        window = source.window(index)
        labelled = window.labels != UNLABELLED
        features.append(window.position_features[labelled, :_NUM_COLUMNS])
        labels.append(window.labels[labelled].astype(np.int64))
    return np.concatenate(features), np.concatenate(labels)
