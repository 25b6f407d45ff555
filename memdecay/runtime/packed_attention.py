"""Attention of single tokens over packed ones as they are stored, in place of a model's own."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from memdecay.runtime.budgeted import BudgetedLayers
from memdecay.runtime.grouped_attention import attend_in_groups, can_share_keys
from memdecay.runtime.mixed_attention import empty_logits
from memdecay.runtime.observer import AttentionFunction, wrap_attention
from memdecay.runtime.packed_states import PackedStates

_KNOWN_BASE = "sdpa"
"""The attention that is replaced: it is known what it computes, and that it gives no weights."""


@contextmanager
def attend_to_packed(decoder: PreTrainedModel, cache: BudgetedLayers) -> Iterator[None]:
    """Let a model's single tokens attend to packed ones as they are stored, until the block ends.

    Nothing changes where there is no kernel for a device, where the model's attention is another
    than torch's, or where a layer asks for more than softmax over masked, scaled logits: packed
    tokens are unpacked then.

    Args:
        decoder: The part of a model that holds the layers.
        cache: The cache that the model's forwards use.
    """
    if not is_replaceable(decoder):
        yield
        return
    attend = partial(attend_as_stored, cache)
    with wrap_attention(decoder, attend), cache.handing_out_packed():
        yield


def is_replaceable(decoder: PreTrainedModel) -> bool:
    """Tell whether it is known what a model's attention computes."""
    base = str(decoder.config._attn_implementation)
    # Other functions may stand around the base already; they add to its name.
    return base.partition("_memdecay_")[0] == _KNOWN_BASE


def attend_as_stored(
    cache: BudgetedLayers,
    base: AttentionFunction,
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Any,
    **kwargs: Any,
) -> Any:
    """Attend to what a cache's `update` returned, by the model's own function if need be.

    Args:
        cache: The cache.
        base: The model's function.
        module: The attention layer.
        query: ``(batch, heads, q, head_dim)``.
        key: The keys, packed or not.
        value: The values.
        attention_mask: As the model made it.
        **kwargs: What else the function takes.

    Returns:
        The output ``(batch, q, heads, head_dim)`` and what the function returns beside it.
    """
    if isinstance(key, PackedStates) and _is_plain(query, attention_mask, kwargs):
        scale = kwargs.get("scaling") or query.shape[-1] ** -0.5
        if key.is_watched:
            key.logits = empty_logits(key.mixed, query)
        output = cache.attend(key.mixed, query, scale, _bias(attention_mask), key.logits)
        return output.transpose(1, 2).contiguous(), None
    if can_share_keys(base, query, key, attention_mask, kwargs):
        return attend_in_groups(module, query, key, value, attention_mask, **kwargs)
    return base(module, query, key, value, attention_mask, **kwargs)


def _is_plain(query: Tensor, attention_mask: Any, kwargs: dict[str, Any]) -> bool:
    """Tell whether attention is softmax over masked logits, with a mask that is one line a row."""
    if query.requires_grad or query.shape[2] != 1:
        return False
    if kwargs.get("dropout") or any(
        kwargs.get(name) is not None for name in ("softcap", "position_bias", "s_aux")
    ):
        return False
    if attention_mask is None:
        return True
    is_tensor = isinstance(attention_mask, Tensor) and attention_mask.ndim == 4
    return is_tensor and attention_mask.shape[1:3] == (1, 1)


def _bias(attention_mask: Tensor | None) -> Tensor | None:
    """Return what a mask ``(batch or 1, 1, 1, kept)`` adds to the logits, float32."""
    if attention_mask is None:
        return None
    mask = attention_mask[:, 0, 0]
    if mask.dtype != torch.bool:
        return mask.to(torch.float32)
    return torch.zeros(mask.shape, device=mask.device).masked_fill_(~mask, -math.inf)
