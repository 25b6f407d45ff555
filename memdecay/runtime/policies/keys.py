"""Rank by what the keys themselves look like: ``keydiff`` and ``knorm``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from memdecay.runtime.metadata import Slots
from memdecay.runtime.policies.base import AS_CONFIGURED, Observation


def key_difference(keys: Tensor, is_real: Tensor | None = None) -> Tensor:
    """Return minus the cosine of each key to the mean direction of all keys of its head.

    Source: Park et al. 2025, "KeyDiff: Key Similarity-Based KV Cache Eviction for Long-Context LLM
    Inference in Resource-Constrained Environments", section 3.

    Args:
        keys: Shape ``(batch, heads, kept, head_dim)``, float.
        is_real: Tokens that count in the mean, shape ``(batch, kept)``, bool; None for all.

    Returns:
        Shape ``(batch, heads, kept)``, float32.
    """
    direction = torch.nn.functional.normalize(keys.float(), dim=-1)
    if is_real is None:
        anchor = direction.mean(dim=2, keepdim=True)
    else:
        weight = is_real[:, None, :, None].to(direction)
        anchor = (direction * weight).sum(dim=2, keepdim=True)
    return -torch.nn.functional.cosine_similarity(keys.float(), anchor, dim=-1)


def negative_key_norm(keys: Tensor, is_real: Tensor | None = None) -> Tensor:  # noqa: ARG001
    """Return minus the length of each key: keys of low norm draw much attention.

    Source: Devoto et al. 2024, "A Simple and Effective L2 Norm-Based Strategy for KV Cache
    Compression", section 3.

    Args:
        keys: Shape ``(batch, heads, kept, head_dim)``, float.
        is_real: Not needed; there so that the scores have one signature.

    Returns:
        Shape ``(batch, heads, kept)``, float32.
    """
    norms: Tensor = torch.linalg.vector_norm(keys.float(), dim=-1)
    return -norms


@dataclass(frozen=True, slots=True)
class KeyPolicy:
    """Rank by a score of the keys, averaged over layers and heads.

    The published methods select for each head; a row keeps one set of tokens here.

    Attributes:
        key_score: `key_difference` or `negative_key_norm`.
    """

    key_score: Callable[[Tensor, Tensor | None], Tensor]
    evicts: bool = True
    protects_sinks: bool = True
    caps_regions: bool = False
    uses_attention: bool = False
    uses_keys: bool = True
    uses_foresight: bool = False
    fades: bool = False
    scores_logarithms: bool = False
    observation: Observation = AS_CONFIGURED

    def score(self, slots: Slots, keys: tuple[Tensor, ...]) -> Tensor:
        """Return the mean score of a token's keys."""
        if not keys:
            raise ValueError(
                "this policy ranks by the keys, expected those of each layer, got none"
            )
        device = slots.positions.device
        is_real = ~slots.is_pad
        total = torch.zeros(slots.positions.shape, device=device)
        for layer_keys in keys:
            scores = self.key_score(layer_keys, is_real.to(layer_keys.device))
            total += scores.mean(dim=1).to(device)
        return total / len(keys)
