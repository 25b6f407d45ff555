"""Attention over a layer's tokens as they are stored: some packed, some at full precision."""

from __future__ import annotations

from torch import Tensor

from memdecay.runtime.packed_states import MixedStates
from memdecay.runtime.precision.kernels.dispatch import find_kernel
from memdecay.runtime.precision.kernels.reference import attend_exact


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
    kernel = find_kernel(query.device)
    assert kernel is not None, "packed states are handed out where there is a kernel"
    packed_bias = exact_bias = None
    if bias is not None:
        bias = bias.expand(query.shape[0], -1)
        packed_bias, exact_bias = bias[:, : states.num_packed], bias[:, states.num_packed :]
    attended = kernel(query, states.parts, scale, packed_bias)
    if states.keys.shape[2]:
        exact = attend_exact(query, states.keys, states.values, scale, exact_bias)
        attended = attended.join(exact)
    return attended.output.to(query.dtype)
