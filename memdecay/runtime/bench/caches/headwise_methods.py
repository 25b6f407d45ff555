"""The literature's methods as published: each layer or head keeps its own tokens."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

import torch
from torch import Tensor

from memdecay.runtime.policies.base import Blend
from memdecay.runtime.policies.keys import key_difference, negative_key_norm
from memdecay.runtime.policies.snapkv import POOL_WIDTH, WINDOW_QUERIES


@dataclass(frozen=True, slots=True)
class HeadwiseMethod:
    """How a layer's heads rank their tokens.

    Attributes:
        blend: How attention observations join; None where attention isn't used.
        window_queries: Newest queries whose attention counts, 0 for all.
        pool_width: Neighbouring tokens whose attention is averaged.
        shares_layer: Whether the heads of a layer keep the same tokens.
        recent_share: Share of the kept tokens that are the newest ones in any case.
        key_score: Ranks keys ``(batch, heads, kept, head_dim)`` where attention isn't used.
    """

    blend: Blend | None = None
    window_queries: int = 0
    pool_width: int = 1
    shares_layer: bool = False
    recent_share: float = 0.0
    key_score: Callable[[Tensor], Tensor] | None = None

    def observe(self, known: Tensor, probs: Tensor) -> Tensor:
        """Join the attention of a forward with what was observed before.

        Args:
            known: Shape ``(batch, num_key_value_heads, kept)``, float32; 0 where nothing was seen.
            probs: Attention of the forward's queries, shape
                ``(batch, num_attention_heads, q, kept)``, float32.
        """
        window = probs[:, :, -self.window_queries :]
        num_queries = window.shape[2]
        batch_size, num_heads = known.shape[:2]
        shape = (batch_size, num_heads, -1, num_queries, known.shape[2])
        per_key_head = window.reshape(shape).mean(dim=2)
        if self.shares_layer:
            per_key_head = per_key_head.mean(dim=1, keepdim=True).expand_as(per_key_head)
        if self.blend is Blend.SUM:
            return known + per_key_head.sum(dim=2)
        new = per_key_head.mean(dim=2)
        if self.blend is Blend.WINDOW:
            return torch.lerp(known, new, min(1.0, num_queries / self.window_queries))
        return new

    def score(self, attention: Tensor, keys: Tensor, num_recent: int) -> Tensor:
        """Rank the tokens of every head.

        Args:
            attention: What `observe` gave, ``(batch, heads, kept)``.
            keys: ``(batch, heads, kept, head_dim)``.
            num_recent: Newest tokens that stay in any case.

        Returns:
            ``(batch, heads, kept)``, float32.
        """
        if self.key_score is not None:
            return self.key_score(keys)
        # The window's own tokens stay: their attention must not spill over its edge.
        num_old = attention.shape[2] - num_recent
        old = torch.nn.functional.avg_pool1d(
            attention[:, :, :num_old], self.pool_width, stride=1, padding=self.pool_width // 2
        )
        return torch.cat([old, attention[:, :, num_old:]], dim=2)


HEADWISE: Mapping[str, HeadwiseMethod] = MappingProxyType(
    {
        "snapkv-per-head": HeadwiseMethod(Blend.WINDOW, WINDOW_QUERIES, POOL_WIDTH),
        "tova-per-layer": HeadwiseMethod(Blend.LATEST, 1, shares_layer=True),
        "h2o-per-head": HeadwiseMethod(Blend.SUM, recent_share=0.5),
        "keydiff-per-head": HeadwiseMethod(key_score=key_difference),
        "knorm-per-head": HeadwiseMethod(key_score=negative_key_norm),
    }
)
"""Methods by name, for the benchmark only: the product's cache keeps one set of tokens a row."""
