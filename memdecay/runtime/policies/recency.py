"""Rank by position alone: ``full``, ``window`` and ``streaming``."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from memdecay.runtime.metadata import Slots
from memdecay.runtime.policies.base import AS_CONFIGURED, Observation


@dataclass(frozen=True, slots=True)
class NewestStay:
    """Rank by position alone."""

    evicts: bool = True
    protects_sinks: bool = True
    caps_regions: bool = False
    uses_attention: bool = False
    uses_keys: bool = False
    uses_foresight: bool = False
    fades: bool = False
    scores_logarithms: bool = False
    observation: Observation = AS_CONFIGURED

    def score(self, slots: Slots, keys: tuple[Tensor, ...]) -> Tensor:  # noqa: ARG002
        """Return minus the age in tokens."""
        return -slots.ages.to(torch.float32)
