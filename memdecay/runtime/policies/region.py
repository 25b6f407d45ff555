"""Rank by the region formula alone: ``region``."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from memdecay.runtime.metadata import Slots
from memdecay.runtime.policies.base import AS_CONFIGURED, Observation
from memdecay.runtime.scoring import log_decayed_score


@dataclass(frozen=True, slots=True)
class RegionPolicy:
    """Rank by the plain formula: importance * exp(-decay * age)."""

    evicts: bool = True
    protects_sinks: bool = True
    caps_regions: bool = True
    uses_attention: bool = False
    uses_keys: bool = False
    uses_foresight: bool = False
    fades: bool = False
    scores_logarithms: bool = True
    observation: Observation = AS_CONFIGURED

    def score(self, slots: Slots, keys: tuple[Tensor, ...]) -> Tensor:  # noqa: ARG002
        """Return the logarithm of the decayed score, which ranks the same and can't underflow."""
        return log_decayed_score(slots.importance, slots.decay, slots.ages)
