"""How long the keys and values of tokens are, head by head."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

_LEAST_NORM = 1e-6


def log_norms(layers: Sequence[tuple[Tensor, Tensor]]) -> Tensor:
    """Return the logarithms of the norms of tokens' keys and values.

    A key's rotary position does not change its norm, so a token has the same numbers wherever it
    stands.

    Args:
        layers: Keys and values of the same tokens in each layer, each of the shape
            ``(batch, heads, n, head_dim)``, float.

    Returns:
        Shape ``(batch, n, 2 * layers * heads)``, float32: layer by layer, the keys' heads before
        the values'.

    Raises:
        ValueError: There are no layers.
    """
    if not layers:
        raise ValueError("layers must hold the keys and values of one layer or more, got none")
    device = layers[0][0].device
    columns = [
        part.to(torch.float32).norm(dim=-1).transpose(1, 2).to(device)
        for layer in layers
        for part in layer
    ]
    return torch.cat(columns, dim=-1).clamp_min(_LEAST_NORM).log()
