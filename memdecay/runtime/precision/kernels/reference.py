"""Attention in plain torch, step by step: what every kernel is tested against."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from memdecay.runtime.precision.kernels.parts import Attended, PackedPart


def attend_packed(
    query: Tensor, parts: Sequence[PackedPart], scale: float, bias: Tensor | None = None
) -> Attended:
    """Attend to packed tokens, which every query may see unless the bias hides them.

    Args:
        query: Turned by its position, ``(batch, num_attention_heads, q, head_dim)``, float.
        parts: The packed tokens, at least one part, in the order of the bias.
        scale: Factor on the logits.
        bias: Added to the logits, ``(batch, n)`` for all n tokens of the parts, float32; minus
            infinity hides a token. None hides none.
    """
    decoded = [part.decode() for part in parts]
    keys = torch.cat([keys for keys, _ in decoded], dim=2)
    values = torch.cat([values for _, values in decoded], dim=2)
    return attend_exact(query, keys, values, scale, bias)


def attend_exact(
    query: Tensor, keys: Tensor, values: Tensor, scale: float, bias: Tensor | None = None
) -> Attended:
    """Attend to tokens as they are, each of which every query may see.

    Args:
        query: ``(batch, num_attention_heads, q, head_dim)``, float.
        keys: ``(batch, num_key_value_heads, n, head_dim)``, float.
        values: ``(batch, num_key_value_heads, n, value_dim)``, float.
        scale: Factor on the logits.
        bias: See `attend_packed`.
    """
    batch_size, num_heads, num_queries, head_dim = query.shape
    num_key_heads = keys.shape[1]
    # The queries of the heads that share a key head, one behind the other.
    grouped = query.to(torch.float32).reshape(batch_size, num_key_heads, -1, head_dim)
    logits = (grouped * scale) @ keys.to(torch.float32).transpose(2, 3)
    if bias is not None:
        logits = logits + bias[:, None, None]
    lse = logits.logsumexp(dim=-1)  # (batch, num_key_heads, queries)
    probs = torch.exp(logits - lse.masked_fill(lse.isneginf(), 0.0).unsqueeze(-1))
    output = probs @ values.to(torch.float32)
    return Attended(
        output.view(batch_size, num_heads, num_queries, -1),
        lse.view(batch_size, num_heads, num_queries),
    )


def unpack_into(keys: Tensor | None, values: Tensor | None, parts: Sequence[PackedPart]) -> None:
    """Unpack tokens into the front of tensors ``(batch, heads, all tokens, dim)``, part by part.

    None in place of keys or values leaves them packed.
    """
    first = 0
    for part in parts:
        own = slice(first, first + part.num_tokens)
        part.pool.decode_into(
            None if keys is None else keys[:, :, own],
            None if values is None else values[:, :, own],
            part.tier,
            part.basis,
            part.rotation,
        )
        first += part.num_tokens
