"""Attention of query heads that share a key head, without a copy of the keys for each of them.

transformers, or torch behind it, repeats keys and values for every query head. On the CPU torch's
kernel needs no such copies: it goes through memory by strides, and a stride of zero shows the same
keys to every query head of a group. The numbers are the same to the last bit.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn
from torch.nn import functional
from transformers.integrations.sdpa_attention import sdpa_attention_forward

from memdecay.runtime.packed_states import PackedStates

_UNKNOWN_TERMS = ("softcap", "position_bias", "s_aux")
"""What would have to be done beside softmax over masked, scaled logits."""


def can_share_keys(
    base: Any, query: Tensor, key: Tensor, attention_mask: Any, kwargs: dict[str, Any]
) -> bool:
    """Tell whether `attend_in_groups` does what a model's attention function would do.

    Args:
        base: The model's function.
        query: ``(batch, heads, q, head_dim)``.
        key: ``(batch, key heads, kept, head_dim)``.
        attention_mask: As the model made it.
        kwargs: What else the function takes.
    """
    if base is not sdpa_attention_forward or query.device.type != "cpu":
        return False
    if query.requires_grad or isinstance(key, PackedStates):
        return False
    if kwargs.get("dropout") or any(kwargs.get(name) is not None for name in _UNKNOWN_TERMS):
        return False
    num_heads, num_key_heads = query.shape[1], key.shape[1]
    if num_heads == num_key_heads or num_heads % num_key_heads:
        return False
    num_queries = query.shape[2]
    if attention_mask is None:
        # Otherwise transformers takes the keys behind the queries for room that is still empty.
        return num_queries in (1, key.shape[2])
    # transformers copies nothing for single queries with a mask.
    is_for_all_rows = isinstance(attention_mask, Tensor) and attention_mask.shape[:2] == (1, 1)
    return is_for_all_rows and num_queries > 1


def attend_in_groups(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float | None = None,
    is_causal: bool | None = None,
    **_kwargs: Any,
) -> tuple[Tensor, None]:
    """Do what transformers' function for torch's attention does; see `can_share_keys` for when.

    Args:
        module: The attention layer.
        query: ``(batch, heads, q, head_dim)``.
        key: ``(batch, key heads, kept, head_dim)``.
        value: ``(batch, key heads, kept, value_dim)``.
        attention_mask: ``(1, 1, q, kept)``, bool or added to the logits; None for none.
        scaling: Factor on the logits; ``head_dim ** -0.5`` if None.
        is_causal: Whether queries see only keys up to their own where there is no mask; None asks
            the layer.
        **_kwargs: Ignored.

    Returns:
        The output ``(batch, q, heads, value_dim)``, and no weights.
    """
    batch_size, num_heads, num_queries, head_dim = query.shape
    num_key_heads = key.shape[1]
    group = num_heads // num_key_heads
    if is_causal is None:
        is_causal = bool(getattr(module, "is_causal", True))
    # Key heads become rows, and a row's heads are those of its group.
    output = functional.scaled_dot_product_attention(
        query.reshape(batch_size * num_key_heads, group, num_queries, head_dim),
        _shared(key, group),
        _shared(value, group),
        attn_mask=attention_mask,
        scale=scaling,
        is_causal=is_causal and num_queries > 1 and attention_mask is None,
    )
    heads_apart = output.reshape(batch_size, num_heads, num_queries, value.shape[3])
    return heads_apart.transpose(1, 2).contiguous(), None


def _shared(states: Tensor, group: int) -> Tensor:
    """Return ``(batch * key heads, group, kept, width)``: the same memory for all of a group."""
    return states.flatten(0, 1).unsqueeze(1).expand(-1, group, -1, -1)
