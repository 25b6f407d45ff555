"""The choice of the next token from a model's logits."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

_ALMOST_ZERO = 1e-5
"""Temperatures below this are as 0: logits divided by less have no finite value in the end."""


@dataclass(frozen=True, slots=True)
class SamplingConfig:
    """How the next token is chosen.

    Attributes:
        temperature: Divisor of the logits; 0, or less than 0.00001, takes the most likely token.
        top_p: Only the most likely tokens that together reach this probability are drawn from.
        seed: Seed of the draws; None draws differently each time.
    """

    temperature: float = 0.0
    top_p: float = 1.0
    seed: int | None = None

    def __post_init__(self) -> None:
        """Check the ranges.

        Raises:
            ValueError: The temperature is negative or not finite, or top_p is not in (0, 1].
        """
        if not (math.isfinite(self.temperature) and self.temperature >= 0):
            raise ValueError(f"temperature must be 0 or above, got {self.temperature}")
        if not 0 < self.top_p <= 1:
            raise ValueError(f"top_p must lie in (0, 1], got {self.top_p}")


class Sampler:
    """Draws tokens by a `SamplingConfig`, with a random state of its own."""

    def __init__(self, config: SamplingConfig, device: torch.device) -> None:
        self._config = config
        self._generator: torch.Generator | None = None
        if config.temperature >= _ALMOST_ZERO:
            self._generator = torch.Generator(device)
            if config.seed is None:
                self._generator.seed()
            else:
                self._generator.manual_seed(config.seed)

    def pick(self, logits: Tensor) -> int:
        """Choose a token.

        Args:
            logits: ``(vocab_size,)``, any float type.
        """
        if self._generator is None:
            return int(logits.argmax())
        probs = torch.softmax(logits.float() / self._config.temperature, dim=-1)
        if self._config.top_p < 1:
            probs = most_likely(probs, self._config.top_p)
        return int(torch.multinomial(probs, 1, generator=self._generator))


def most_likely(probs: Tensor, top_p: float) -> Tensor:
    """Set all but the most likely tokens to zero.

    Args:
        probs: ``(vocab_size,)``, float32, sum 1.
        top_p: The kept tokens are the fewest that reach this probability; at least one.

    Returns:
        ``(vocab_size,)``, float32, not scaled to sum 1 again.
    """
    ordered, order = probs.sort(descending=True, stable=True)
    is_reached_before = ordered.cumsum(dim=-1) - ordered >= top_p
    is_reached_before[0] = False  # A top_p that float32 rounds to 0 is reached before any token.
    return torch.zeros_like(probs).scatter(0, order, ordered.masked_fill(is_reached_before, 0.0))
