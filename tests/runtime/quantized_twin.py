"""The independent reference for tokens that fade: a full cache, quantized in place, and a mask.

It never sees what the decaying cache stores, only where its tokens stand: it quantizes the keys and
values that the model itself computed, token by token and layer by layer.
"""

from __future__ import annotations

import torch
from torch import Tensor
from transformers import DynamicCache, PreTrainedModel

from memdecay.classifier.decoder import find_decoder
from memdecay.runtime.cache import DecayCache
from memdecay.runtime.layer import EvictingLayer
from memdecay.runtime.precision.basis import KeyBasis
from memdecay.runtime.precision.layout import FULL_BITS
from memdecay.runtime.precision.pool import Pool
from memdecay.runtime.precision.rotary import RotaryFrequencies, Rotation
from memdecay.runtime.precision.tiers import make_tier

from .reference import hiding_mask, left_padded_mask


class StoringCache(DynamicCache):
    """A full cache that stores keys and values in a dtype of its own.

    Args:
        dtype: The dtype; None stores them as they come.
    """

    def __init__(self, dtype: torch.dtype | None) -> None:
        super().__init__()  # Without a configuration no layer slides: masks do it.
        self._dtype = dtype

    def update(
        self, key_states: Tensor, value_states: Tensor, layer_idx: int, *_args: object, **_: object
    ) -> tuple[Tensor, Tensor]:
        if self._dtype is not None:
            key_states = key_states.to(self._dtype).to(key_states.dtype)
            value_states = value_states.to(self._dtype).to(value_states.dtype)
        states: tuple[Tensor, Tensor] = super().update(key_states, value_states, layer_idx)
        return states


class QuantizedTwin:
    """Feeds the same tokens to a decaying cache and to a full one that loses the same precision.

    Args:
        model: Runs both; the decaying cache is attached to it.
        cache: The decaying cache.
        ids: ``(batch, n)``, int64.
        pad_lengths: Padding in front of each row.
        sliding_window: Of the layers that slide, for models that mix them; None for none.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        cache: DecayCache,
        ids: Tensor,
        pad_lengths: list[int],
        sliding_window: int | None = None,
    ) -> None:
        self.model, self.cache, self.ids = model, cache, ids
        stored = cache.config.storage_dtype
        self.full = StoringCache(getattr(torch, stored) if stored else None)
        self.mask = left_padded_mask(pad_lengths, ids.shape[1])
        self.position_ids = (self.mask.cumsum(1) - 1).clamp_min(0)
        self.bits = torch.full(ids.shape, FULL_BITS)
        self.seen = 0
        self._sliding_window = sliding_window
        self._frequencies = RotaryFrequencies.of(find_decoder(model))
        self._bases: dict[int, KeyBasis] = {}

    def feed(self, num_tokens: int) -> tuple[Tensor, Tensor]:
        """Make room, run one forward with each cache; return both logits of the real tokens."""
        start, end = self.seen, self.seen + num_tokens
        mask = self.mask[:, :end]
        self.cache.set_padding(mask)
        before = self.cache.slots.positions
        self.cache.make_room(num_tokens)
        kept = self.cache.slots.positions.clone()
        if start:
            self._follow(before, kept)
        else:
            kept = torch.zeros(len(self.ids), 0, dtype=torch.int64)
        inputs = {
            "input_ids": self.ids[:, start:end],
            "position_ids": self.position_ids[:, start:end],
        }
        ours = self.model(**inputs, attention_mask=mask, cache=self.cache).logits
        theirs = self.model(
            **inputs, attention_mask=self._masks(kept, start, mask), cache=self.full
        ).logits
        self.seen = end
        is_real = self.mask[:, start:end].bool()
        self._copy_padding(~is_real, start)
        return ours[is_real], theirs[is_real]

    def _copy_padding(self, is_pad: Tensor, start: int) -> None:
        """Take over what the model made of padding: nobody sees it, but the basis is fitted to it.

        The masks of the two caches leave it to chance what padding itself sees.
        """
        for row, place in is_pad.nonzero().tolist():
            for ours, full in zip(self.cache.layers, self.full.layers, strict=True):
                newest = place - is_pad.shape[1]
                full.keys[row, :, start + place] = ours.keys[row, :, newest]
                full.values[row, :, start + place] = ours.values[row, :, newest]

    def _follow(self, before: Tensor, kept: Tensor) -> None:
        """Quantize what lost precision, from how it was to how it is now."""
        moved: dict[tuple[int, int], list[int]] = {}
        for bits, first, last in self.cache.layout.ranges():
            for row in range(len(kept)):
                for position in kept[row, first:last].tolist():
                    if bits < self.bits[row, position]:
                        moved.setdefault((row, bits), []).append(position)
                        self.bits[row, position] = bits
        for index, layer in enumerate(self.cache.layers):
            if isinstance(layer, EvictingLayer) and moved:
                self._fit(index, before)
                for (row, bits), positions in moved.items():
                    self._quantize(index, row, torch.tensor(positions), bits)

    def _fit(self, index: int, before: Tensor) -> None:
        """Take the basis from all tokens that were held when the first of them faded."""
        if index in self._bases:
            return
        keys = self.full.layers[index].keys
        held = keys.gather(2, before[:, None, :, None].expand(*keys.shape[:2], -1, keys.shape[3]))
        rotation = self._rotation(self.position_ids.gather(1, before))
        flat = rotation.turn_back(held).transpose(0, 1).flatten(1, 2)
        self._bases[index] = KeyBasis.fit(flat)

    def _quantize(self, index: int, row: int, positions: Tensor, bits: int) -> None:
        layer = self.full.layers[index]
        keys, values = layer.keys[row : row + 1], layer.values[row : row + 1]
        tier = make_tier(bits, keys.shape[3], values.shape[3])
        rotation = self._rotation(self.position_ids[row, positions][None])
        basis = self._bases[index]
        pool = Pool.encode(keys[:, :, positions], values[:, :, positions], tier, basis, rotation)
        keys[:, :, positions], values[:, :, positions] = pool.decode(tier, basis, rotation)

    def _rotation(self, positions: Tensor) -> Rotation:
        return self._frequencies.rotation(positions)

    def _masks(self, kept: Tensor, start: int, mask: Tensor) -> Tensor | dict[str, Tensor]:
        hidden = hiding_mask(kept, start, mask)
        if self._sliding_window is None:
            return hidden
        end = mask.shape[1]
        return {
            "full_attention": hidden,
            "sliding_attention": sliding_mask(start, end, self._sliding_window),
        }


def sliding_mask(start: int, end: int, window: int) -> Tensor:
    """Return the additive mask of a sliding window, ``(1, 1, end - start, end)``."""
    queries, keys = torch.arange(start, end).unsqueeze(1), torch.arange(end)
    visible = (keys <= queries) & (keys > queries - window)
    return torch.where(visible, 0.0, torch.finfo(torch.float32).min)[None, None]
