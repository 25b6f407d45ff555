"""The linear head that foresees a token's use."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

MOST_DEVIATION = 4.0
"""Standard deviations beyond which a norm counts no more: far ones say that something is odd."""


@dataclass(frozen=True, slots=True)
class ForesightHead:
    """What each norm says of a token's future.

    log(expected use) = attention_weight * log(attention so far) + weights · z + constant

    where ``z`` are the `log_norms` in standard deviations from their mean. The constant is the same
    for all tokens and left out.

    Attributes:
        model: Fingerprint of the language model, see
            `memdecay.classifier.fingerprint.llm_fingerprint`.
        mean: Mean of each logarithm of a norm, ``2 * layers * heads`` numbers.
        scale: Their standard deviations, above zero.
        weights: What a standard deviation of each adds to the logarithm of the expected use.
        attention_weight: Exponent of the attention that a token got so far, 0 or above.
        made_by: How it was fitted, for people.
    """

    model: str
    mean: tuple[float, ...]
    scale: tuple[float, ...]
    weights: tuple[float, ...]
    attention_weight: float
    made_by: str = ""

    def __post_init__(self) -> None:
        """Check that the numbers fit each other.

        Raises:
            ValueError: The lists differ in length, a number isn't finite, a scale isn't above
                zero or the weight of attention is below zero.
        """
        lengths = {len(self.mean), len(self.scale), len(self.weights)}
        if len(lengths) > 1 or 0 in lengths:
            raise ValueError(
                "mean, scale and weights must be equally long and not empty, got "
                f"{len(self.mean)}, {len(self.scale)} and {len(self.weights)} numbers"
            )
        numbers = (*self.mean, *self.scale, *self.weights, self.attention_weight)
        if not all(math.isfinite(number) for number in numbers):
            raise ValueError("all numbers of a foresight head must be finite")
        if min(self.scale) <= 0:
            raise ValueError(f"scale must be above 0 everywhere, got {min(self.scale)}")
        if self.attention_weight < 0:
            raise ValueError(f"attention_weight must be 0 or above, got {self.attention_weight}")

    @property
    def num_norms(self) -> int:
        """How many norms it reads."""
        return len(self.weights)

    def foresee(self, norms: Tensor) -> Tensor:
        """Return what the norms add to the logarithm of the expected use.

        Args:
            norms: As `log_norms` returns them, ``(..., num_norms)``, float32.

        Returns:
            Shape ``(...)``, float32.

        Raises:
            ValueError: The norms are those of another model.
        """
        if norms.shape[-1] != self.num_norms:
            raise ValueError(
                f"the foresight head reads {self.num_norms} norms of a token, the model has "
                f"{norms.shape[-1]}"
            )
        mean, scale, weights = (
            torch.tensor(numbers, dtype=torch.float32, device=norms.device)
            for numbers in (self.mean, self.scale, self.weights)
        )
        deviations = ((norms - mean) / scale).clamp(-MOST_DEVIATION, MOST_DEVIATION)
        return deviations @ weights
