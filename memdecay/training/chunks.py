"""Labelled windows cut into chunks that a loader can shuffle."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import Dataset

UNLABELLED = -1


@dataclass(frozen=True, slots=True)
class Window:
    """The tokens of one window of a trace, in order.

    Attributes:
        hidden_states: ``(num_tokens, hidden_size)``, float16.
        position_features: ``(num_tokens, num_position_features)``, float32.
        labels: ``(num_tokens,)``, int8; the region's index, -1 where unlabelled.
    """

    hidden_states: NDArray[np.float16]
    position_features: NDArray[np.float32]
    labels: NDArray[np.int8]


class WindowSource(Protocol):
    """Where windows come from; arrays may be memory-mapped."""

    def __len__(self) -> int:
        """Return the number of windows."""
        ...

    def num_tokens(self, index: int) -> int:
        """Return the length of a window without reading it."""
        ...

    def window(self, index: int) -> Window:
        """Return a window."""
        ...


class Batch(NamedTuple):
    """Chunks padded to one length.

    ``hidden_states (batch, seq_len, hidden_size)`` and ``position_features (batch, seq_len,
    num_position_features)`` float32, ``token_mask (batch, seq_len)`` bool, ``labels (batch,
    seq_len)`` int64 with -1 for tokens that count for nothing.
    """

    hidden_states: Tensor
    position_features: Tensor
    token_mask: Tensor
    labels: Tensor


class ChunkDataset(Dataset[Window]):
    """Chunks of consecutive tokens, each with unlabelled neighbours on both sides.

    The neighbours give the context means what they would see in the whole window, so that a token
    is trained on just what it meets at run time.

    Args:
        source: The windows.
        indices: Which windows to use.
        chunk_tokens: Labelled positions in a chunk.
        context_tokens: Neighbours on each side.
        max_chunks: How many chunks to keep at most, evenly drawn from all; None for all.
    """

    def __init__(
        self,
        source: WindowSource,
        indices: Sequence[int],
        chunk_tokens: int,
        context_tokens: int,
        max_chunks: int | None = None,
    ) -> None:
        self._source = source
        self._context = context_tokens
        self._spans = [
            (index, start, min(start + chunk_tokens, source.num_tokens(index)))
            for index in indices
            for start in range(0, source.num_tokens(index), chunk_tokens)
        ]
        if max_chunks is not None and len(self._spans) > max_chunks:
            drawn = np.linspace(0, len(self._spans) - 1, max_chunks).astype(np.int64)
            self._spans = [self._spans[place] for place in drawn.tolist()]

    def __len__(self) -> int:
        return len(self._spans)

    def __getitem__(self, item: int) -> Window:
        index, start, end = self._spans[item]
        window = self._source.window(index)
        low, high = max(0, start - self._context), min(len(window.labels), end + self._context)
        labels = np.full(high - low, UNLABELLED, np.int8)
        labels[start - low : end - low] = window.labels[start:end]
        return Window(window.hidden_states[low:high], window.position_features[low:high], labels)


def collate(chunks: Sequence[Window]) -> Batch:
    """Pad chunks on the right and stack them."""
    seq_len = max(len(chunk.labels) for chunk in chunks)
    batch = len(chunks)
    hidden = np.zeros((batch, seq_len, chunks[0].hidden_states.shape[1]), np.float32)
    position = np.zeros((batch, seq_len, chunks[0].position_features.shape[1]), np.float32)
    mask = np.zeros((batch, seq_len), np.bool_)
    labels = np.full((batch, seq_len), UNLABELLED, np.int64)
    for row, chunk in enumerate(chunks):
        length = len(chunk.labels)
        hidden[row, :length] = chunk.hidden_states
        position[row, :length] = chunk.position_features
        mask[row, :length] = True
        labels[row, :length] = chunk.labels
    return Batch(
        torch.from_numpy(hidden),
        torch.from_numpy(position),
        torch.from_numpy(mask),
        torch.from_numpy(labels),
    )
