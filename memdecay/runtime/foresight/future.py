"""Watch what later tokens attend to while a model reads, over all layers and heads."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from memdecay.runtime.attention_mass import attention_probs
from memdecay.runtime.observer import AttentionFunction, wrap_attention

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

    @contextmanager
    def attached(self, decoder: PreTrainedModel) -> Iterator[None]:
        """Watch the decoder until the block ends; one row without padding."""

        def attend(
            base: AttentionFunction,
            module: nn.Module,
            query: Tensor,
            key: Tensor,
            value: Tensor,
            attention_mask: Any,
            **kwargs: Any,
        ) -> Any:
            if getattr(module, "layer_idx", None) in self._layers:
                self._see(query, key, kwargs)
            return base(module, query, key, value, attention_mask, **kwargs)

        with wrap_attention(decoder, attend):
            yield

    def take(self) -> Tensor:
        """Return the squared attention that each token got since the last call, and start anew.

        Returns:
            Summed over queries, averaged over layers and heads, ``(num_tokens,)``, float64.
        """
        taken = self._sum / max(len(self._layers), 1)
        self._sum = torch.zeros_like(taken)
        return taken

    def _see(self, query: Tensor, key: Tensor, kwargs: dict[str, Any]) -> None:
        num_heads, num_queries, num_keys = query.shape[1], query.shape[2], key.shape[2]
        start = num_keys - num_queries
        step = max(1, _MAX_ELEMENTS // (num_heads * num_keys))
        for first in range(0, num_queries, step):
            part = query[:, :, first : first + step]
            seen = key[:, :, : start + first + part.shape[2]]
            probs, _ = attention_probs(
                part, seen, None, kwargs.get("scaling"), kwargs.get("softcap")
            )
            squares = probs[0].square_().mean(dim=0).sum(dim=0)
            self._sum[: seen.shape[2]] += squares.double().cpu()
