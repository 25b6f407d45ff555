"""One attention layer's keys and values in a preallocated buffer that can give tokens up."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from transformers.cache_utils import CacheLayerMixin

from memdecay.runtime.precision.picking import pick_tokens


@contextmanager
def bookkeeping() -> Iterator[None]:
    """Make ordinary tensors without gradients, whatever mode the caller's forward runs in.

    A buffer made in inference mode could not be written outside of it in the next turn.
    """
    with torch.inference_mode(mode=False), torch.no_grad():
        yield


class EvictingLayer(CacheLayerMixin):  # type: ignore[misc]
    """Keys and values of the kept tokens of one layer.

    ``keys`` and ``values`` are views of the filled part of the buffers, shape
    ``(batch, num_key_value_heads, kept, head_dim)``. The buffers have room for ``capacity``
    tokens. A forward that brings more makes them grow; `keep` brings them back.

    Args:
        capacity: Tokens the buffers have room for.
        grows_ahead: Whether to grow by half more than needed, for a cache that never evicts.
        storage_dtype: The buffers' dtype, for example bfloat16 under a model in float32; None
            takes the model's. In another dtype `update` returns copies in the model's.
    """

    keys: Any
    values: Any
    is_sliding = False
    is_croppable = True
    is_compileable = False

    def __init__(
        self,
        capacity: int,
        *,
        grows_ahead: bool = False,
        storage_dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        self.capacity = capacity
        self.num_seen = 0
        self.num_buffered = 0
        self._grows_ahead = grows_ahead
        self._storage_dtype = storage_dtype
        self._buffers: tuple[Tensor, Tensor] | None = None
        self._shown: tuple[int, torch.Size] | None = None

    @property
    def num_kept(self) -> int:
        """Tokens that each row still holds."""
        return self.num_buffered

    @property
    def allocated_bytes(self) -> int:
        """Bytes of both buffers."""
        return sum(buffer.nbytes for buffer in self._buffers or ())

    @property
    def bytes_per_token(self) -> int:
        """Bytes that one token takes in both buffers, over all rows; 0 before the first update."""
        if self._buffers is None:
            return 0
        return sum(buffer.nbytes // buffer.shape[2] for buffer in self._buffers)

    @property
    def unused_bytes(self) -> int:
        """Bytes of both buffers that no token fills."""
        length = 0 if self._buffers is None else self._buffers[0].shape[2]
        return self.bytes_per_token * (length - self.num_buffered) if length else 0

    def lazy_initialization(self, key_states: Tensor, value_states: Tensor) -> None:
        """Allocate the buffers for tensors of this batch, head count, dtype and device."""
        length = max(self.capacity, key_states.shape[2])
        dtype = self._storage_dtype or key_states.dtype
        self._buffers = (
            _room_like(key_states, length, dtype),
            _room_like(value_states, length, dtype),
        )
        self.is_initialized = True
        self._show_kept()

    def update(
        self, key_states: Tensor, value_states: Tensor, *_args: Any, **_kwargs: Any
    ) -> tuple[Tensor, Tensor]:
        """Append a forward's keys and values, each ``(batch, heads, q, head_dim)``.

        Returns:
            Keys and values of the kept and the new tokens, views of the buffers where those have
            the states' dtype.
        """
        with bookkeeping():
            if self._buffers is None:
                self.lazy_initialization(key_states, value_states)
            start, end = self.num_buffered, self.num_buffered + key_states.shape[2]
            self._reserve(end)
            for buffer, states in zip(self._allocated(), (key_states, value_states), strict=True):
                buffer[:, :, start:end].copy_(states)
            self.num_buffered = end
            self.num_seen += end - start
            self._show_kept()
            shown = self._shown_to(key_states)
        self._shown = self._mark_of(shown[0])
        return shown

    def holds(self, key_states: Tensor) -> bool:
        """Tell whether these keys are what the last `update` returned."""
        return self._shown == self._mark_of(key_states)

    def dense(self, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        """Return keys and values of all kept tokens in this dtype."""
        return self.keys.to(dtype), self.values.to(dtype)

    def keep(self, indices: Tensor) -> None:
        """Keep these tokens of each row and give up the room beyond the capacity.

        Args:
            indices: Slots that stay, ascending, shape ``(batch, num_keep)``, int64.
        """
        with bookkeeping():
            num_keep = indices.shape[1]
            buffers = self._allocated()
            # A copy first: the old and the new places overlap.
            kept = pick_tokens(*buffers, indices.to(buffers[0].device))
            self._buffers = tuple(  # type: ignore[assignment]
                _filled(buffer, states, self._room_after(num_keep))
                for buffer, states in zip(buffers, kept, strict=True)
            )
            self.num_buffered = num_keep
            self._show_kept()

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        """Return the keys that attention will see and the logical position the mask gives them."""
        return self.num_kept + query_length, self.num_seen - self.num_kept

    def get_seq_length(self) -> int:
        """Return the tokens seen, which numbers the next one rightly after an eviction."""
        return self.num_seen

    def get_max_length(self) -> int:
        """Return -1: any number of tokens may be seen."""
        return -1

    def reset(self) -> None:
        """Forget everything and free the buffers."""
        self._buffers = self.keys = self.values = None
        self.is_initialized = False
        self._shown = None
        self.num_seen = self.num_buffered = 0

    def crop(self, tokens_to_remove: int) -> None:
        """Take back the newest ``-tokens_to_remove`` tokens, which must all be kept.

        Raises:
            ValueError: The number is positive.
        """
        if tokens_to_remove > 0:
            raise ValueError(
                f"crop takes the number of tokens to remove as a negative, got {tokens_to_remove}"
            )
        if self.is_initialized:
            self.num_buffered += tokens_to_remove
            self.num_seen += tokens_to_remove
            self._show_kept()

    def select_rows(self, rows: Tensor) -> None:
        """Make these rows, in this order, the batch; ``rows`` of shape ``(new_batch,)``, int64."""
        if self._buffers is None:
            return
        with bookkeeping():
            self._buffers = tuple(  # type: ignore[assignment]
                buffer.index_select(0, rows.to(buffer.device)) for buffer in self._buffers
            )
            self._show_kept()

    def reorder_cache(self, beam_idx: Tensor) -> None:
        """Reorder the rows for beam search."""
        self.select_rows(beam_idx)

    def batch_repeat_interleave(self, repeats: int) -> None:
        """Repeat every row ``repeats`` times."""
        if self._buffers is not None:
            self.select_rows(torch.arange(len(self.keys)).repeat_interleave(repeats))

    def batch_select_indices(self, indices: Tensor) -> None:
        """Keep only these rows."""
        self.select_rows(indices)

    def _shown_to(self, key_states: Tensor) -> tuple[Tensor, Tensor]:
        """Return keys and values of all tokens for the forward that brought these keys."""
        return self.dense(key_states.dtype)

    def _mark_of(self, key_states: Tensor) -> tuple[int, torch.Size]:
        """Return what tells keys from others."""
        return key_states.data_ptr(), key_states.shape

    def _allocated(self) -> tuple[Tensor, Tensor]:
        assert self._buffers is not None, "the layer has not been updated yet"
        return self._buffers

    def _reserve(self, length: int) -> None:
        """Move to larger buffers if these can't hold ``length`` tokens."""
        if length <= self._allocated()[0].shape[2]:
            return
        room = length + length // 2 if self._grows_ahead else length
        grown = []
        for buffer in self._allocated():
            larger = _room_like(buffer, room, buffer.dtype)
            larger[:, :, : self.num_buffered].copy_(buffer[:, :, : self.num_buffered])
            grown.append(larger)
        self._buffers = (grown[0], grown[1])

    def _room_after(self, num_keep: int) -> int:
        return max(self.capacity, num_keep)

    def _show_kept(self) -> None:
        """Point ``keys`` and ``values`` at the filled part of the buffers."""
        self.keys, self.values = (buffer[:, :, : self.num_buffered] for buffer in self._allocated())


def _room_like(states: Tensor, length: int, dtype: torch.dtype) -> Tensor:
    batch_size, num_heads, _, head_dim = states.shape
    return states.new_empty((batch_size, num_heads, length, head_dim), dtype=dtype)


def _filled(buffer: Tensor, states: Tensor, length: int) -> Tensor:
    """Fill this buffer with states, or another if it is not ``length`` tokens long."""
    target = buffer if buffer.shape[2] == length else _room_like(buffer, length, buffer.dtype)
    target[:, :, : states.shape[2]].copy_(states)
    return target
