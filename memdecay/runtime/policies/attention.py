"""The attention of a row's tokens, made comparable and smoothed, and what is foreseen of it."""

from __future__ import annotations

import torch
from torch import Tensor

from memdecay.runtime.metadata import Slots


def relative_attention(slots: Slots) -> Tensor:
    """Divide the attention by its mean over the row's observed real tokens.

    Returns:
        Shape ``(batch, kept)``, float32; 1 for tokens not observed yet and for padding.
    """
    is_known = ~slots.attention.isnan() & ~slots.is_pad
    known = slots.attention.masked_fill(~is_known, 0.0)
    mean = known.sum(dim=1, keepdim=True) / is_known.sum(dim=1, keepdim=True).clamp_min(1)
    relative = known / mean.clamp_min(torch.finfo(mean.dtype).tiny)
    return relative.masked_fill(~is_known, 1.0)


def pool(attention: Tensor, width: int, *, counts_edges: bool = False) -> Tensor:
    """Average over neighbouring slots.

    Args:
        attention: Shape ``(batch, kept)``, float.
        width: Slots that are averaged, odd.
        counts_edges: Whether the slots missing beyond either end count as zeros.
    """
    return torch.nn.functional.avg_pool1d(
        attention.unsqueeze(1), width, stride=1, padding=width // 2, count_include_pad=counts_edges
    ).squeeze(1)


def log_expected_use(slots: Slots, attention: Tensor, floor: float, exponent: float) -> Tensor:
    """Put together what is known of the tokens' use and what is foreseen of it.

    Args:
        slots: The kept tokens.
        attention: Relative attention so far, shape ``(batch, kept)``, float, 0 or above.
        floor: Added to it, above 0.
        exponent: What the attention so far weighs.

    Returns:
        ``exponent * log(floor + attention) + foresight``, shape ``(batch, kept)``; the foresight
        of tokens at which no head has looked is 0.
    """
    return exponent * torch.log(floor + attention) + slots.foresight.nan_to_num(nan=0.0)
