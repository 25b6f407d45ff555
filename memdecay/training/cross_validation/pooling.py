"""The held-out tokens of all folds together, with the temperatures that calibrate them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from memdecay.training.calibration.tokens import TaggedTokens
from memdecay.training.cross_validation.predictions import FoldPredictions
from memdecay.training.metrics import fit_temperature


@dataclass(frozen=True, slots=True, eq=False)
class PooledFolds:
    """All folds' tokens in the order of their traces.

    Attributes:
        logits: ``(n, num_regions)``, float32.
        logits_alone: ``(n, num_regions)``, float32; the same without the rules' scores.
        position_probs: ``(n, num_regions)``, float32.
        labels: ``(n,)``, int64.
        trace: ``(n,)``, int64, not falling.
        fold: ``(n,)``, int64; the fold that held the token out.
        own_temperatures: ``(num_folds,)``, fitted to each fold's validation traces, which are of
            sources trained on.
        crossed_temperatures: ``(num_folds,)``, fitted to what the other folds' models said about
            their held-out sources.
    """

    logits: NDArray[np.float32]
    logits_alone: NDArray[np.float32]
    position_probs: NDArray[np.float32]
    labels: NDArray[np.int64]
    trace: NDArray[np.int64]
    fold: NDArray[np.int64]
    own_temperatures: NDArray[np.float64]
    crossed_temperatures: NDArray[np.float64]

    @property
    def pooled_temperature(self) -> float:
        """The temperature for sources never seen, fitted to all held-out tokens."""
        return fit_temperature(torch.from_numpy(self.logits), torch.from_numpy(self.labels))

    def tokens(self, temperatures: NDArray[np.float64] | None = None) -> TaggedTokens:
        """Return the classifier's tokens.

        Args:
            temperatures: ``(num_folds,)``, divisors of the logits; None for the bare logits.
        """
        divisors = np.ones(1) if temperatures is None else temperatures[self.fold, None]
        return self.tagged(_softmax(self.logits / divisors))

    def tokens_alone(self) -> TaggedTokens:
        """Return the tokens of the classifier without the rules' scores, and no temperature."""
        return self.tagged(_softmax(self.logits_alone))

    def tagged(self, region_probs: NDArray[np.float32]) -> TaggedTokens:
        """Return the same tokens with other probabilities, ``(n, num_regions)`` float32."""
        nothing = np.zeros(len(self.labels), np.int64)
        return TaggedTokens(region_probs, self.labels, self.trace, nothing, nothing)


def _softmax(logits: NDArray[np.floating]) -> NDArray[np.float32]:
    probs: NDArray[np.float32] = torch.softmax(torch.from_numpy(logits), dim=-1).float().numpy()
    return probs


def pool_folds(predictions: Sequence[FoldPredictions]) -> PooledFolds:
    """Put the folds' tokens together; with a single fold there are no others to cross with.

    Raises:
        ValueError: There are no folds.
    """
    if not predictions:
        raise ValueError("expected the predictions of at least one fold, got none")
    trace = np.concatenate([fold.trace for fold in predictions])
    order = np.argsort(trace, kind="stable")
    sizes = [len(fold.labels) for fold in predictions]
    return PooledFolds(
        logits=np.concatenate([fold.logits for fold in predictions])[order],
        logits_alone=np.concatenate([fold.logits_alone for fold in predictions])[order],
        position_probs=np.concatenate([fold.position_probs for fold in predictions])[order],
        labels=np.concatenate([fold.labels for fold in predictions])[order],
        trace=trace[order],
        fold=np.repeat(np.arange(len(sizes)), sizes)[order],
        own_temperatures=np.array([fold.temperature for fold in predictions]),
        crossed_temperatures=_crossed_temperatures(predictions),
    )


def _crossed_temperatures(predictions: Sequence[FoldPredictions]) -> NDArray[np.float64]:
    temperatures = []
    for index in range(len(predictions)):
        others = [*predictions[:index], *predictions[index + 1 :]] or [predictions[index]]
        logits = torch.from_numpy(np.concatenate([fold.logits for fold in others]))
        labels = torch.from_numpy(np.concatenate([fold.labels for fold in others]))
        temperatures.append(fit_temperature(logits, labels))
    return np.array(temperatures)
