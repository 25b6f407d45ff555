"""Attention over a layer's tokens as they are stored: some packed, some at full precision."""

from __future__ import annotations

import torch
from torch import Tensor

from memdecay.runtime.layer import bookkeeping
from memdecay.runtime.packed_states import MixedStates
from memdecay.runtime.precision.kernels import dispatch
from memdecay.runtime.precision.kernels.parts import ExactPart


def attend_mixed(
    states: MixedStates,
    query: Tensor,
    scale: float,
    bias: Tensor | None,
    logits: Tensor | None = None,
) -> Tensor:
    """Attend to packed and exact tokens, each of which every query may see.

    Args:
        states: The tokens, on a device that has a kernel.
        query: ``(batch, num_attention_heads, q, head_dim)``, float.
        scale: Factor on the logits.
        bias: Added to the logits, ``(batch or 1, kept)``, float32; None adds nothing.
        logits: Gets the scaled logits without the bias, see `empty_logits`; None asks for none.

    Returns:
        ``(batch, num_attention_heads, q, value_dim)`` in the queries' dtype.
    """
    if bias is not None:
        bias = bias.expand(query.shape[0], -1)
    exact = ExactPart(states.keys, states.values) if states.keys.shape[2] else None
    attended = dispatch.attend_mixed(query, states.parts, exact, scale, bias, logits)
    return attended.output.to(query.dtype)


def empty_logits(states: MixedStates, query: Tensor) -> Tensor | None:
    """Return room for the logits of `attend_mixed`; None where the kernel keeps them to itself.

    Returns:
        ``(batch, num_attention_heads, q, kept)``, float32, not set.
    """
    if not dispatch.gives_logits(query.device):
        return None
    num_kept = states.num_packed + states.keys.shape[2]
    with bookkeeping():
        return torch.empty(*query.shape[:3], num_kept, dtype=torch.float32)
