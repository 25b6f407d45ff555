"""The buffers of a model's full-attention layers, changed together and counted."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from torch import Tensor
from transformers.cache_utils import Cache, CacheLayerMixin

from memdecay.runtime.accounting import ByteAccount
from memdecay.runtime.fading_layer import FadingLayer
from memdecay.runtime.fading_move import PackedMove, alike, pack_group
from memdecay.runtime.layer import EvictingLayer
from memdecay.runtime.mixed_attention import attend_mixed
from memdecay.runtime.precision.layout import Move
from memdecay.runtime.precision.positions import FadedPositions
from memdecay.runtime.precision.rotary import Rotation
from memdecay.runtime.precision.transfer import Transfer, transfers_of
from memdecay.runtime.staging import StagedMove

logger = logging.getLogger(__name__)


class BudgetedLayers(Cache):  # type: ignore[misc]
    """Cache layers of which some evict: what has to happen to all of them at once.

    Args:
        layers: One layer for each of the model's.
        budget_tokens: Tokens above which a forward's growth is warned of; None for no budget.
        faded: Where the packed tokens of the layers stand, if these lose precision.
    """

    def __init__(
        self,
        layers: list[CacheLayerMixin],
        budget_tokens: int | None,
        faded: FadedPositions | None = None,
    ) -> None:
        super().__init__(layers=layers)
        self._faded = faded
        self._evicting = [layer for layer in layers if isinstance(layer, EvictingLayer)]
        self._budget_tokens = budget_tokens
        self._has_warned = False
        self._bytes = ByteAccount()

    @property
    def bytes_per_token(self) -> int:
        """Bytes one kept token takes over all full-attention layers and rows; 0 when empty."""
        return sum(layer.bytes_per_token for layer in self._evicting)

    @property
    def allocated_bytes(self) -> int:
        """Bytes of the full-attention layers' buffers."""
        return self._bytes.allocated_bytes

    @property
    def peak_bytes(self) -> int:
        """Most bytes of buffers at one time since the last reset.

        Old and new buffers both count while one is copied into the other. The scratch copy of
        one layer's keys and values during an eviction does not.
        """
        return self._bytes.peak_bytes

    def holds(self, key_states: Tensor, layer_idx: int) -> bool:
        """Tell whether these keys are what `update` returned for this layer."""
        layer = self.layers[layer_idx]
        return isinstance(layer, EvictingLayer) and layer.holds(key_states)

    def update(
        self, key_states: Tensor, value_states: Tensor, layer_idx: int, *args: Any, **kwargs: Any
    ) -> tuple[Tensor, Tensor]:
        """Append one layer's keys and values, each ``(batch, heads, q, head_dim)``.

        Returns:
            Keys and values of the kept and the new tokens, ``(batch, heads, kept + q, head_dim)``.
        """
        layer = self.layers[layer_idx]
        if not isinstance(layer, EvictingLayer):
            states: tuple[Tensor, Tensor] = layer.update(key_states, value_states, *args, **kwargs)
            return states
        before = layer.allocated_bytes
        states = layer.update(key_states, value_states, *args, **kwargs)
        self._bytes.replace(before, layer.allocated_bytes)
        if layer is self._evicting[-1] and self._faded is not None:
            self._faded.release()
        if self._budget_tokens is not None and layer.num_buffered > self._budget_tokens:
            self._warn_of_growth(layer.num_buffered)
        return states

    @contextmanager
    def handing_out_packed(self) -> Iterator[None]:
        """Let `update` return packed tokens as they are stored, until the block ends.

        Whoever asks for this makes sure that the model's attention calls `attend` with them.
        """
        before = [layer.hands_out_packed for layer in self._fading_layers]
        try:
            for layer in self._fading_layers:
                layer.hands_out_packed = True
            yield
        finally:
            for layer, was in zip(self._fading_layers, before, strict=True):
                layer.hands_out_packed = was

    # A member, so that a subclass can stand around it.
    attend = staticmethod(attend_mixed)

    def reset(self) -> None:
        """Forget every token and free the buffers."""
        super().reset()
        self._bytes = ByteAccount()

    def _keep_in_layers(self, indices: Tensor) -> None:
        for layer in self._evicting:
            before = layer.allocated_bytes
            layer.keep(indices)
            self._bytes.replace(before, layer.allocated_bytes)

    def _move_in_layers(self, move: Move, rotation: Rotation, room: int) -> None:
        transfers = transfers_of(move)
        layers = self._fading_layers
        before = iter([layer.allocated_bytes for layer in layers])
        for group in alike(layers):
            self._settle_group(
                move, transfers, pack_group(group, transfers, rotation), room, before
            )

    def _move_staged(self, staged: StagedMove, move: Move, room: int) -> None:
        """Let tokens that were packed beforehand take their places."""
        before = iter([layer.allocated_bytes for layer in self._fading_layers])
        waiting = staged.nbytes
        for part in staged.parts():
            self._settle_group(move, staged.transfers, part, room, before)
        self._bytes.settle(waiting, 0)

    def _settle_group(
        self,
        move: Move,
        transfers: Sequence[Transfer],
        part: PackedMove,
        room: int,
        before: Iterator[int],
    ) -> None:
        for layer, packed in zip(part.layers, part.packed, strict=True):
            layer.move(move, transfers, packed, room)
            self._bytes.settle(next(before), layer.allocated_bytes)

    @property
    def _fading_layers(self) -> list[FadingLayer]:
        return [layer for layer in self._evicting if isinstance(layer, FadingLayer)]

    def _crop_layers(self, tokens_to_remove: int) -> None:
        # Sliding layers may refuse: they come first, so that a refusal changes nothing.
        for layer in sorted(self.layers, key=lambda layer: isinstance(layer, EvictingLayer)):
            layer.crop(tokens_to_remove)

    def _select_layer_rows(self, rows: Tensor) -> None:
        for layer in self.layers:
            if isinstance(layer, EvictingLayer):
                before = layer.allocated_bytes
                layer.select_rows(rows)
                self._bytes.replace(before, layer.allocated_bytes)
            else:
                layer.batch_select_indices(rows.to(layer.keys.device))
        if self._faded is not None:
            self._faded.select_rows(rows)

    def _warn_of_growth(self, num_tokens: int) -> None:
        if not self._has_warned:
            self._has_warned = True
            logger.warning(
                "one forward needs room for %d tokens, more than the budget of %d: the cache grows "
                "until it ends; set prefill_chunk_size to stay within the budget",
                num_tokens,
                self._budget_tokens,
            )
