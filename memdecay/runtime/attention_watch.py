"""Watch all of a model's attention, every query of some layers, in pieces that fit the memory."""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import AbstractContextManager
from typing import Any

from torch import Tensor, nn
from transformers import PreTrainedModel

from memdecay.runtime.attention_mass import attention_probs
from memdecay.runtime.observer import AttentionFunction, wrap_attention

SeeProbs = Callable[[Tensor, int], None]
"""Takes the shares ``(heads, queries, keys)`` of consecutive queries, float32, and the place of the
first of them in the sequence."""


def watch_attention(
    decoder: PreTrainedModel, layers: Collection[int], see: SeeProbs, max_elements: int
) -> AbstractContextManager[None]:
    """Show a function what every query of a sequence attends to, until the block ends.

    Args:
        decoder: The part of a model that holds the layers. One row without padding goes through it,
            with a cache that keeps everything.
        layers: Indices of the watched layers.
        see: Called for each of them in turn, for as many queries at a time as fit.
        max_elements: Shares of all heads that are in memory at a time, for one layer.
    """

    def attend(
        base: AttentionFunction,
        module: nn.Module,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        attention_mask: Any,
        **kwargs: Any,
    ) -> Any:
        if getattr(module, "layer_idx", None) in layers:
            _show(query, key, kwargs, see, max_elements)
        return base(module, query, key, value, attention_mask, **kwargs)

    return wrap_attention(decoder, attend)


def _show(
    query: Tensor, key: Tensor, kwargs: dict[str, Any], see: SeeProbs, max_elements: int
) -> None:
    num_heads, num_queries, num_keys = query.shape[1], query.shape[2], key.shape[2]
    start = num_keys - num_queries
    step = max(1, max_elements // (num_heads * num_keys))
    for first in range(0, num_queries, step):
        part = query[:, :, first : first + step]
        seen = key[:, :, : start + first + part.shape[2]]
        # One row without padding: the mask is the causal one.
        probs, _ = attention_probs(part, seen, None, kwargs.get("scaling"), kwargs.get("softcap"))
        see(probs[0], start + first)
