"""Rank by the newest query's attention: ``tova``."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from memdecay.runtime.metadata import Slots
from memdecay.runtime.policies.base import Blend, Observation

_NEWEST_QUERY = Observation.exhaustive(Blend.LATEST, window_queries=1)


@dataclass(frozen=True, slots=True)
class TovaPolicy:
    """Rank by the attention that the newest query pays.

    The published method selects for each layer; a row keeps one set of tokens here, so the
    attention is averaged over layers as well as heads.

    Source: Oren et al. 2024, "Transformers are Multi-State RNNs", section 3.2.
    """

    evicts: bool = True
    protects_sinks: bool = True
    caps_regions: bool = False
    uses_attention: bool = True
    uses_keys: bool = False
    uses_foresight: bool = False
    fades: bool = False
    scores_logarithms: bool = False
    observation: Observation = _NEWEST_QUERY

    def score(self, slots: Slots, keys: tuple[Tensor, ...]) -> Tensor:  # noqa: ARG002
        """Return the attention; a token not observed yet is newer than the query and stays."""
        return slots.attention.nan_to_num(nan=1.0)
