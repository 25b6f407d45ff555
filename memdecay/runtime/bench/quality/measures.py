"""How far predictions are from those of a full cache."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor


@dataclass(frozen=True, slots=True)
class TokenScores:
    """One value for each compared prediction, ``(m,)`` each.

    Attributes:
        kl: Kullback-Leibler divergence from the full cache's prediction, nats, float64.
        delta_nll: How much less likely the recorded token got, nats, float64; below zero where it
            got likelier.
        is_same: Whether both find the same token likeliest, bool.
    """

    kl: NDArray[np.float64]
    delta_nll: NDArray[np.float64]
    is_same: NDArray[np.bool_]

    @classmethod
    def join(cls, parts: Sequence[TokenScores]) -> TokenScores:
        """Return the scores one after the other."""
        if not parts:
            return cls(np.empty(0), np.empty(0), np.empty(0, np.bool_))
        return cls(
            np.concatenate([part.kl for part in parts]),
            np.concatenate([part.delta_nll for part in parts]),
            np.concatenate([part.is_same for part in parts]),
        )


@dataclass(frozen=True, slots=True)
class MeanScores:
    """Means over some predictions; NaN where there are none.

    Attributes:
        count: Predictions.
        kl: Mean divergence, nats a token.
        delta_nll: Mean loss of likelihood, nats a token.
        top1: Share of predictions with the same likeliest token.
    """

    count: int
    kl: float
    delta_nll: float
    top1: float


def token_scores(reference: Tensor, log_probs: Tensor, targets: Tensor) -> TokenScores:
    """Compare predictions with the full cache's.

    ``kl = sum over tokens of p * (log p - log q)``, p the reference's and q the other's
    probabilities.

    Args:
        reference: Log-probabilities with a full cache, ``(m, vocab_size)``, float32.
        log_probs: The same with the cache under test.
        targets: The recorded tokens, ``(m,)``, int64.
    """
    kl = (reference.exp() * (reference - log_probs)).sum(dim=-1, dtype=torch.float64)
    rows = torch.arange(len(targets), device=targets.device)
    delta_nll = (reference[rows, targets] - log_probs[rows, targets]).double()
    is_same = reference.argmax(dim=-1) == log_probs.argmax(dim=-1)
    return TokenScores(kl.cpu().numpy(), delta_nll.cpu().numpy(), is_same.cpu().numpy())


def mean_scores(scores: TokenScores, chosen: NDArray[np.bool_] | None = None) -> MeanScores:
    """Average over the chosen predictions, ``(m,)`` bool; None for all."""
    if chosen is None:
        chosen = np.ones(len(scores.kl), np.bool_)
    count = int(chosen.sum())
    if not count:
        return MeanScores(0, math.nan, math.nan, math.nan)
    return MeanScores(
        count,
        float(scores.kl[chosen].mean()),
        float(scores.delta_nll[chosen].mean()),
        float(scores.is_same[chosen].mean()),
    )


def kept_benefit(nll: float, full: float, none: float) -> float:
    """Return which share of a full cache's benefit is kept.

    The benefit is how much less surprising a span is with all of the context than with none.

    Args:
        nll: Negative log-likelihood of recalling spans with the cache under test.
        full: The same with a full cache.
        none: The same without any context before the cue.

    Returns:
        1 for as good as the full cache, 0 for as bad as none; NaN where the full cache itself has
        no benefit.
    """
    benefit = none - full
    return (none - nll) / benefit if benefit > 0 else math.nan


def num_equal(left: Sequence[int], right: Sequence[int]) -> int:
    """Return how many tokens two sequences have in common from their beginning."""
    pairs = zip(left, right, strict=False)
    return next((i for i, (a, b) in enumerate(pairs) if a != b), min(len(left), len(right)))
