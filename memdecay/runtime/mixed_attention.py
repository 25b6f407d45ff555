"""Attention over a layer's tokens as they are stored: some packed, some at full precision."""

from __future__ import annotations

from torch import Tensor

from memdecay.runtime.packed_states import MixedStates
from memdecay.runtime.precision.kernels import dispatch
from memdecay.runtime.precision.kernels.parts import ExactPart


def attend_mixed(states: MixedStates, query: Tensor, scale: float, bias: Tensor | None) -> Tensor:
    """Attend to packed and exact tokens, each of which every query may see.

    Args:
        states: The tokens, on a device that has a kernel.
        query: ``(batch, num_attention_heads, q, head_dim)``, float.
        scale: Factor on the logits.
        bias: Added to the logits, ``(batch or 1, kept)``, float32; None adds nothing.

    Returns:
        ``(batch, num_attention_heads, q, value_dim)`` in the queries' dtype.
    """
    if bias is not None:
        bias = bias.expand(query.shape[0], -1)
    exact = ExactPart(states.keys, states.values) if states.keys.shape[2] else None
    attended = dispatch.attend_mixed(query, states.parts, exact, scale, bias)
    return attended.output.to(query.dtype)
