"""Picking tokens out of buffers and packed tokens, a token's numbers at a time."""

from __future__ import annotations

import torch
from torch import Tensor


def pick_tokens(states: Tensor, indices: Tensor) -> Tensor:
    """Return some tokens of each row, the same in all of its heads.

    On a CPU this copies whole tokens, where a gather along the tokens would look every byte up.

    Args:
        states: ``(batch, heads, n, width)``, any dtype.
        indices: ``(batch, num_picked)``, int64.

    Returns:
        ``(batch, heads, num_picked, width)``.
    """
    batch_size, num_heads, num_tokens, width = states.shape
    owners = torch.arange(batch_size * num_heads, device=states.device)
    firsts = (owners * num_tokens).view(batch_size, num_heads, 1)
    places = (firsts + indices[:, None]).flatten()
    lines = states.reshape(-1, width).index_select(0, places)
    return lines.view(batch_size, num_heads, indices.shape[1], width)
