"""Watch what later tokens attend to while a model reads, over all layers and heads."""

from __future__ import annotations

from contextlib import AbstractContextManager

import torch
from torch import Tensor
from transformers import PreTrainedModel

from memdecay.runtime.attention_watch import watch_attention

_MAX_ELEMENTS = 1 << 22
"""Attention shares of all heads that are in memory at a time, for one layer."""


class FutureAttention:
    """Sums of squared attention, forward by forward.

    A share of attention moves an output by about as much as it is large, and errors of many tokens
    add up in squares, so the square says what forgetting a token costs.

    Args:
        num_tokens: Tokens of the whole sequence.
        layers: Indices of the watched layers.
    """

    def __init__(self, num_tokens: int, layers: tuple[int, ...]) -> None:
        self._layers = frozenset(layers)
        self._sum = torch.zeros(num_tokens, dtype=torch.float64)

    def attached(self, decoder: PreTrainedModel) -> AbstractContextManager[None]:
        """Watch the decoder until the block ends; one row without padding."""
        return watch_attention(decoder, self._layers, self._see, _MAX_ELEMENTS)

    def take(self) -> Tensor:
        """Return the squared attention that each token got since the last call, and start anew.

        Returns:
            Summed over queries, averaged over layers and heads, ``(num_tokens,)``, float64.
        """
        taken = self._sum / max(len(self._layers), 1)
        self._sum = torch.zeros_like(taken)
        return taken

    def _see(self, probs: Tensor, _: int) -> None:
        squares = probs.square_().mean(dim=0).sum(dim=0)  # (keys,)
        self._sum[: squares.numel()] += squares.double().cpu()
