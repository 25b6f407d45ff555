"""Fit a foresight head to what became of tokens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from scipy.stats import spearmanr
from sklearn.linear_model import Ridge

from memdecay.runtime.foresight.head import MOST_DEVIATION, ForesightHead
from memdecay.runtime.foresight.samples import Samples

PENALTIES = (300.0, 1_000.0, 3_000.0, 10_000.0)
"""Strengths of the ridge that are tried, for the norms; attention is not held back."""

_LEAST_SCALE = 1e-3
_ATTENTION_UNIT = 100.0
"""Attention enters this much larger, so that the penalty all but spares its weight."""


@dataclass(frozen=True, slots=True)
class ForesightFit:
    """A head and how well it foresees sequences that it was not fitted to.

    Attributes:
        head: The head, fitted to all sequences.
        penalty: The ridge that did best on sequences left out.
        correlation: Rank correlation of foreseen and measured use, mean over sequences left out.
        correlation_of_attention: The same where only the attention so far is known.
    """

    head: ForesightHead
    penalty: float
    correlation: float
    correlation_of_attention: float


def fit_head(
    sequences: Sequence[Samples], groups: Sequence[str], model: str, made_by: str = ""
) -> ForesightFit:
    """Fit a head, with the ridge that does best on groups left out.

    Args:
        sequences: Samples of each sequence.
        groups: What sequences are left out together by, such as their source; two at least.
        model: Fingerprint of the language model.
        made_by: For people.

    Raises:
        ValueError: There is one group only, or their number is not that of the sequences.
    """
    if len(sequences) != len(groups):
        raise ValueError(f"expected a group for each sequence, got {len(groups)}")
    names = sorted(set(groups))
    if len(names) < 2:
        raise ValueError(f"expected sequences of two groups or more, got {len(names)}")
    scores = {
        penalty: float(np.mean(_left_out(sequences, groups, names, penalty)))
        for penalty in PENALTIES
    }
    best = max(PENALTIES, key=lambda penalty: scores[penalty])
    attention = [spearmanr(each.attention, each.use)[0] for each in sequences]
    head = _fitted(Samples.join(sequences), best, model, made_by)
    return ForesightFit(head, best, scores[best], float(np.mean(attention)))


def _left_out(
    sequences: Sequence[Samples], groups: Sequence[str], names: Sequence[str], penalty: float
) -> list[float]:
    """Return the rank correlation on each sequence by a head that did not see its group."""
    found = []
    for name in names:
        others = [each for each, group in zip(sequences, groups, strict=True) if group != name]
        head = _fitted(Samples.join(others), penalty, "", "")
        for each, group in zip(sequences, groups, strict=True):
            if group == name:
                foreseen = head.foresee(torch.from_numpy(each.norms)).numpy()
                expected = foreseen + head.attention_weight * each.attention
                found.append(float(spearmanr(expected, each.use)[0]))
    return found


def _fitted(samples: Samples, penalty: float, model: str, made_by: str) -> ForesightHead:
    mean = samples.norms.mean(axis=0, dtype=np.float64)
    scale = samples.norms.std(axis=0, dtype=np.float64).clip(_LEAST_SCALE)
    # Cut off as the head does.
    deviations = np.clip((samples.norms - mean) / scale, -MOST_DEVIATION, MOST_DEVIATION)
    inputs = np.column_stack([deviations, _ATTENTION_UNIT * samples.attention])
    coefficients = Ridge(alpha=penalty).fit(inputs, samples.use).coef_
    return ForesightHead(
        model,
        tuple(mean.tolist()),
        tuple(scale.tolist()),
        tuple(float(each) for each in coefficients[:-1]),
        max(float(coefficients[-1]) * _ATTENTION_UNIT, 0.0),
        made_by,
    )
