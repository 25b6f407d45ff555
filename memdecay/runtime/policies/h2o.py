"""Rank by attention added up over all queries, half of the room for recent tokens: ``h2o``."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from memdecay.runtime.metadata import Slots
from memdecay.runtime.policies.base import Blend, Observation

_ALL_QUERIES = Observation.exhaustive(Blend.SUM, window_queries=0)


@dataclass(frozen=True, slots=True)
class H2oPolicy:
    """Keep the newer half of the slots, and of the older half those that drew the most attention.

    Attention adds up from the first query to the newest and never fades, so old tokens have an
    advantage, as in the published method. That one selects for each head; here attention is
    averaged over layers and heads since a row keeps one set of tokens.

    Source: Zhang et al. 2023, "H2O: Heavy-Hitter Oracle for Efficient Generative Inference of
    Large Language Models", algorithm 1.
    """

    evicts: bool = True
    protects_sinks: bool = True
    caps_regions: bool = False
    uses_attention: bool = True
    uses_keys: bool = False
    uses_foresight: bool = False
    fades: bool = False
    scores_logarithms: bool = False
    observation: Observation = _ALL_QUERIES

    def score(self, slots: Slots, keys: tuple[Tensor, ...]) -> Tensor:  # noqa: ARG002
        """Return the sum of attention; the newer half stands above it, the newest on top."""
        attention = slots.attention.nan_to_num(nan=0.0)
        rank = torch.arange(slots.num_kept, device=attention.device)
        is_recent = rank >= slots.num_kept - slots.num_kept // 2
        above = attention.amax(dim=1, keepdim=True) + 1 + rank / max(slots.num_kept, 1)
        return torch.where(is_recent, above, attention)
