"""How much attention a few queries give each key, computed beside any attention kernel."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn.attention.flex_attention import BlockMask, create_mask


def attention_mass(
    query: Tensor,
    key: Tensor,
    attention_mask: Any,
    scaling: float | None = None,
    softcap: float | None = None,
    *,
    is_sum: bool = False,
    logits: Tensor | None = None,
) -> Tensor:
    """Average the softmax of the newest queries over heads and over the queries that see a key.

    Args:
        query: The newest ``w`` queries, positions applied, shape
            ``(batch, num_attention_heads, w, head_dim)``.
        key: Shape ``(batch, num_key_value_heads, kv_len, head_dim)``.
        attention_mask: As the attention function got it: None for causal, a bool or additive
            tensor of shape ``(batch or 1, heads or 1, q_len, kv_len)`` with ``q_len >= w``, flex
            attention's block mask of that shape, or a padding mask ``(batch, kv_len)``. Masks of
            other types count as causal.
        scaling: Factor on the logits; ``head_dim ** -0.5`` if None.
        softcap: Bound of the logits, for models that have one.
        is_sum: Whether to add up over the queries instead of averaging.
        logits: The scaled logits ``(batch, num_attention_heads, w, kv_len)``, float32, if they are
            known already; they get overwritten.

    Returns:
        Attention mass, shape ``(batch, kv_len)``, float32; 0 for keys no query sees.
    """
    if logits is None:
        logits = _attention_logits(query, key, scaling, softcap)
    probs, is_visible = _probs(logits, attention_mask)
    total = probs.mean(dim=1).sum(dim=1)  # (batch, kv_len)
    if is_sum:
        return total
    num_viewers = is_visible.any(dim=1).sum(dim=1).clamp_min(1)  # (batch or 1, kv_len)
    return total / num_viewers


def attention_probs(
    query: Tensor,
    key: Tensor,
    attention_mask: Any,
    scaling: float | None = None,
    softcap: float | None = None,
) -> tuple[Tensor, Tensor]:
    """Return the softmax of the newest queries of every head, and which keys they see.

    Args:
        query: As in `attention_mass`, like the others.
        key: Shape ``(batch, num_key_value_heads, kv_len, head_dim)``.
        attention_mask: As the attention function got it.
        scaling: Factor on the logits.
        softcap: Bound of the logits.

    Returns:
        Probabilities, shape ``(batch, num_attention_heads, w, kv_len)``, float32, 0 where a key
        isn't seen; and visibility, shape ``(batch or 1, heads or 1, w, kv_len)``, bool.
    """
    return _probs(_attention_logits(query, key, scaling, softcap), attention_mask)


def _attention_logits(
    query: Tensor, key: Tensor, scaling: float | None, softcap: float | None
) -> Tensor:
    """Return what the softmax is taken of, ``(batch, heads, w, kv_len)``, float32."""
    batch_size, num_heads, num_queries, head_dim = query.shape
    num_key_heads, kv_len = key.shape[1], key.shape[2]
    grouped = query.detach().reshape(batch_size, num_key_heads, -1, head_dim)  # by key head
    logits = torch.matmul(grouped, key.detach().transpose(2, 3)).to(torch.float32)
    # In place from here on: a quarter of the time is spent on copies otherwise.
    logits *= head_dim**-0.5 if scaling is None else scaling
    if softcap is not None:
        logits = softcap * torch.tanh(logits / softcap)
    return logits.view(batch_size, num_heads, num_queries, kv_len)


def _probs(logits: Tensor, attention_mask: Any) -> tuple[Tensor, Tensor]:
    """Return the softmax of logits, in place of them, and which keys are seen."""
    is_visible = _visible(attention_mask, logits.shape[2], logits.shape[3], logits.device)
    probs = logits.masked_fill_(~is_visible, torch.finfo(logits.dtype).min).softmax(dim=-1)
    probs *= is_visible
    return probs, is_visible


def _visible(attention_mask: Any, num_queries: int, kv_len: int, device: torch.device) -> Tensor:
    """Return which key each query sees, ``(batch or 1, heads or 1, num_queries, kv_len)``, bool."""
    if isinstance(attention_mask, Tensor) and attention_mask.ndim == 4:
        mask = attention_mask[:, :, -num_queries:, :kv_len]
        return mask if mask.dtype == torch.bool else mask > torch.finfo(mask.dtype).min / 2
    if isinstance(attention_mask, BlockMask):
        batch_size, num_heads, q_len, _ = attention_mask.shape
        mask = create_mask(attention_mask.mask_mod, batch_size, num_heads, q_len, kv_len, device)
        return mask[:, :, -num_queries:]
    keys = torch.arange(kv_len, device=device)
    causal = keys <= torch.arange(kv_len - num_queries, kv_len, device=device).unsqueeze(1)
    if isinstance(attention_mask, Tensor) and attention_mask.ndim == 2:
        return causal & attention_mask[:, None, None, -kv_len:].to(torch.bool)
    return causal[None, None]
