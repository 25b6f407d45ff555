"""Picking tokens out of buffers and packed tokens, a token's numbers at a time."""

from __future__ import annotations

import torch
from torch import Tensor


def pick_tokens(keys: Tensor, values: Tensor, indices: Tensor) -> tuple[Tensor, Tensor]:
    """Return keys and values of some tokens of each row, the same in all of its heads.

    On a CPU this copies whole tokens, where a gather along the tokens would look every byte up.

    Args:
        keys: ``(batch, heads, n, key width)``, any dtype.
        values: ``(batch, heads, n, value width)``, any dtype.
        indices: ``(batch, num_picked)``, int64.

    Returns:
        ``(batch, heads, num_picked, width)`` of both.
    """
    batch_size, num_heads, num_tokens, _ = keys.shape
    owners = torch.arange(batch_size * num_heads, device=keys.device)
    firsts = (owners * num_tokens).view(batch_size, num_heads, 1)
    places = firsts + indices[:, None]  # (batch, heads, num_picked)
    return _pick(keys, places), _pick(values, places)


def _pick(states: Tensor, places: Tensor) -> Tensor:
    width = states.shape[3]
    picked = states.reshape(-1, width).index_select(0, places.flatten())
    return picked.view(*places.shape, width)
