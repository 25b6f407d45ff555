"""Rank by whether a token's attention reaches a threshold: ``selective``."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from memdecay.runtime.metadata import Slots
from memdecay.runtime.policies.attention import relative_attention
from memdecay.runtime.policies.base import AS_CONFIGURED, Observation

DEFAULT_THRESHOLD = 0.3


@dataclass(frozen=True, slots=True)
class SelectivePolicy:
    """Let tokens go first whose average attention lies below a threshold; then the oldest.

    The attention is the running average that ``memdecay`` uses too.

    Attributes:
        threshold: In units of the mean attention of the row's observed tokens: at 0.3 a token is
            low when it draws less than 0.3 times what the average token draws. Above 0.
    """

    threshold: float = DEFAULT_THRESHOLD
    evicts: bool = True
    protects_sinks: bool = True
    caps_regions: bool = False
    uses_attention: bool = True
    uses_keys: bool = False
    uses_foresight: bool = False
    fades: bool = False
    scores_logarithms: bool = False
    observation: Observation = AS_CONFIGURED

    def __post_init__(self) -> None:
        """Check the range.

        Raises:
            ValueError: The threshold is not above 0 or not finite.
        """
        if not (math.isfinite(self.threshold) and self.threshold > 0):
            raise ValueError(f"threshold must be above 0, got {self.threshold}")

    def score(self, slots: Slots, keys: tuple[Tensor, ...]) -> Tensor:  # noqa: ARG002
        """Return minus the age, lowered by more than any age where attention is low."""
        is_low = relative_attention(slots) < self.threshold
        return -(slots.ages + is_low * slots.num_seen).to(torch.float32)
