"""Run a whole sequence with nothing evicted and sum up what its tokens attend to."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from transformers import DynamicCache, PreTrainedModel

from memdecay.classifier.decoder import find_decoder
from memdecay.classifier.hindsight import AgeBuckets, ReceivedAttention, count_queries
from memdecay.classifier.llm import LanguageModel
from memdecay.runtime.attention_watch import watch_attention
from memdecay.runtime.forward_call import ForwardCall

_MAX_ELEMENTS = 1 << 23
"""Attention shares of all heads that are in memory at a time, for one layer."""


@dataclass(frozen=True, slots=True)
class HindsightConfig:
    """What is watched.

    Attributes:
        layers: Indices of the watched layers; empty takes those at a quarter, half, three quarters
            and the end of the depth.
        chunk_tokens: Tokens of one forward pass; the result does not depend on it.
    """

    layers: tuple[int, ...] = ()
    chunk_tokens: int = 256

    def __post_init__(self) -> None:
        """Check the ranges.

        Raises:
            ValueError: A layer is negative or the chunk is below 1.
        """
        if any(layer < 0 for layer in self.layers):
            raise ValueError(f"layers must be 0 or above, got {self.layers}")
        if self.chunk_tokens < 1:
            raise ValueError(f"chunk_tokens must be 1 or more, got {self.chunk_tokens}")


def received_attention(
    llm: LanguageModel,
    input_ids: NDArray[np.int64],
    buckets: AgeBuckets,
    query_groups: NDArray[np.int8] | None = None,
    config: HindsightConfig | None = None,
    on_progress: Callable[[int, int], None] | None = None,
) -> ReceivedAttention:
    """Measure how much attention each token gets from the later ones, by its age at the time.

    Shares are averaged over the heads and the watched layers. The memory it takes grows with the
    length of the sequence, not with its square.

    Args:
        llm: The model.
        input_ids: ``(n,)``.
        buckets: The ages to tell apart; older and younger ones are left out.
        query_groups: ``(n,)``, int8, from 0; what the tokens that ask are summed up by. None for
            one group.
        config: Settings.
        on_progress: Called with the tokens done and the tokens in all after each forward pass.

    Raises:
        ValueError: ``query_groups`` has another shape than ``input_ids``, or a watched layer is
            none of the model's full-attention layers.
    """
    config = config or HindsightConfig()
    if query_groups is None:
        query_groups = np.zeros(input_ids.size, np.int8)
    if query_groups.shape != input_ids.shape:
        raise ValueError(
            f"query_groups must have the shape {input_ids.shape} of input_ids, got "
            f"{query_groups.shape}"
        )
    decoder = find_decoder(llm.model)
    layers = _watched_layers(decoder, config.layers)
    counts = count_queries(query_groups, buckets)
    summing = _Summing(layers, buckets, query_groups, counts.shape[0])
    with summing.attached(decoder), torch.inference_mode():
        _run_in_chunks(llm, decoder, input_ids, config.chunk_tokens, on_progress)
    lifts = summing.lifts / len(layers)
    return ReceivedAttention(buckets, lifts, counts)


def _run_in_chunks(
    llm: LanguageModel,
    decoder: Any,
    input_ids: NDArray[np.int64],
    chunk_tokens: int,
    on_progress: Callable[[int, int], None] | None,
) -> None:
    options = ForwardCall.of(decoder).options(DynamicCache(config=llm.model.config))
    for start in range(0, input_ids.size, chunk_tokens):
        chunk = torch.from_numpy(input_ids[None, start : start + chunk_tokens])
        decoder(input_ids=chunk.to(llm.device), **options)
        if on_progress is not None:
            on_progress(min(start + chunk_tokens, input_ids.size), input_ids.size)


class _Summing:
    """Adds up the attention of each forward pass, layer by layer."""

    def __init__(
        self,
        layers: tuple[int, ...],
        buckets: AgeBuckets,
        query_groups: NDArray[np.int8],
        num_groups: int,
    ) -> None:
        self._layers = frozenset(layers)
        self._buckets = buckets
        self._groups = torch.from_numpy(query_groups.astype(np.int64))
        shape = (num_groups, query_groups.size, len(buckets))
        self._sums = torch.zeros(shape, dtype=torch.float64)

    @property
    def lifts(self) -> NDArray[np.float64]:
        """The sums over all watched layers, ``(groups, n, buckets)``."""
        return self._sums.numpy()

    def attached(self, decoder: PreTrainedModel) -> AbstractContextManager[None]:
        """Watch the decoder until the block ends."""
        return watch_attention(decoder, self._layers, self._see, _MAX_ELEMENTS)

    def _see(self, probs: Tensor, first_query: int) -> None:
        self._add(probs.mean(dim=0).double().cpu(), first_query)

    def _add(self, shares: Tensor, first_query: int) -> None:
        """Add the shares ``(queries, keys)`` of consecutive queries."""
        num_queries, num_keys = shares.shape
        queries = torch.arange(first_query, first_query + num_queries)
        lifts = shares * (queries + 1).unsqueeze(1)
        ages = queries.unsqueeze(1) - torch.arange(num_keys)
        edges = torch.tensor(self._buckets.edges)
        bucket = torch.bucketize(ages, edges, right=True) - 1
        counts = (bucket >= 0) & (bucket < len(self._buckets))
        rows = self._groups[queries].unsqueeze(1) * self._sums.shape[1] + torch.arange(num_keys)
        cells = rows * len(self._buckets) + bucket
        # Shares that count for nothing are added to the first cell as zeros.
        cells, lifts = cells.where(counts, 0), lifts.where(counts, 0)
        self._sums.view(-1).index_add_(0, cells.view(-1), lifts.view(-1))


def _watched_layers(decoder: Any, wanted: tuple[int, ...]) -> tuple[int, ...]:
    config = decoder.config.get_text_config()
    num_layers = int(config.num_hidden_layers)
    kinds = getattr(config, "layer_types", None) or ["full_attention"] * num_layers
    full = [layer for layer, kind in enumerate(kinds) if kind == "full_attention"]
    if not full:
        raise ValueError("the model has no full-attention layers to watch")
    if unknown := sorted(set(wanted) - set(full)):
        raise ValueError(
            f"layer {unknown[0]} is none of the model's {len(full)} full-attention layers"
        )
    if wanted:
        return tuple(sorted(set(wanted)))
    quarters = (len(full) * quarter // 4 for quarter in (1, 2, 3, 4))
    return tuple(sorted({full[max(place - 1, 0)] for place in quarters}))
