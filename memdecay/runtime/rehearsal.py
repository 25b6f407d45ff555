"""Fade a few made-up tokens beforehand, so that no real step waits for kernels to be loaded."""

from __future__ import annotations

import functools
import logging
import time
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor
from transformers import PreTrainedModel

from memdecay.runtime.cache import DecayCache
from memdecay.runtime.fading_layer import FadingLayer
from memdecay.runtime.fading_move import pack_group
from memdecay.runtime.layer import bookkeeping
from memdecay.runtime.mixed_attention import attend_mixed, empty_logits
from memdecay.runtime.packed_states import PackedStates
from memdecay.runtime.precision.kernels.dispatch import find_kernel
from memdecay.runtime.precision.layout import FULL_BITS, Layout, Move
from memdecay.runtime.precision.positions import FadedPositions
from memdecay.runtime.precision.rotary import RotaryFrequencies
from memdecay.runtime.precision.tiers import make_tier
from memdecay.runtime.precision.transfer import transfers_of

logger = logging.getLogger(__name__)

_NUM_TOKENS = 16


def rehearse_fading(decoder: PreTrainedModel, cache: DecayCache) -> None:
    """Load what a cache's first fading will need, if it can fade and there are kernels for it.

    Compiled code is loaded from disk, or compiled where there is none, by running it once on a
    layer that is thrown away. That takes place once in a process for heads of one kind; the log
    tells how long it took. Neither the model nor the cache is touched. On a GPU the kernel's
    package is imported only.

    Args:
        decoder: The part of a model that holds the layers.
        cache: A cache for it.
    """
    if not cache.fades or find_kernel(decoder.device) is None or decoder.device.type != "cpu":
        return
    config = decoder.config.get_text_config(decoder=True)
    num_heads = int(config.num_attention_heads)
    head_dim = getattr(config, "head_dim", None) or config.hidden_size // num_heads
    dtype = decoder.dtype
    _rehearse(
        _Heads(
            num_heads,
            int(getattr(config, "num_key_value_heads", None) or num_heads),
            int(head_dim),
            dtype,
            getattr(torch, cache.config.storage_dtype) if cache.config.storage_dtype else dtype,
            tuple(sorted(cache.config.fading.steps)),
        )
    )


@dataclass(frozen=True, slots=True)
class _Heads:
    """One layer's heads, and how their tokens are stored.

    Attributes:
        num_heads: Heads of queries.
        num_key_heads: Heads of keys and values.
        dim: Their width.
        dtype: What the model computes in.
        storage_dtype: What full precision is stored in.
        steps: Bits of the steps below it, ascending.
    """

    num_heads: int
    num_key_heads: int
    dim: int
    dtype: torch.dtype
    storage_dtype: torch.dtype
    steps: tuple[int, ...]

    @property
    def can_fade(self) -> bool:
        """Whether heads of this width can be packed; the cache itself says so when they can't."""
        try:
            make_tier(self.steps[0], self.dim, self.dim)
        except ValueError:
            return False
        return True

    def states(self, num_heads: int, num_tokens: int) -> Tensor:
        """Return made-up states, which leave torch's random numbers alone."""
        numbers = torch.arange(num_heads * num_tokens * self.dim, dtype=torch.float32)
        return numbers.sin().view(1, num_heads, num_tokens, self.dim).to(self.dtype)


@functools.cache
def _rehearse(heads: _Heads) -> None:
    if not heads.can_fade:
        return
    began_s = time.perf_counter()
    with bookkeeping():
        positions = FadedPositions(RotaryFrequencies(torch.ones(heads.dim // 2)))
        layer = FadingLayer(_NUM_TOKENS, heads.steps, positions, heads.storage_dtype)
        _read(layer, heads, _NUM_TOKENS)
        for move in _moves(heads.steps):
            _make(move, layer, positions)
        _attend(layer, heads)
        _read(layer, heads, 2)  # Unpacks everything, as a prefill does.
    logger.info("prepared the kernels for faded tokens in %.1f s", time.perf_counter() - began_s)


def _read(layer: FadingLayer, heads: _Heads, num_tokens: int) -> tuple[Tensor, Tensor]:
    states = heads.states(heads.num_key_heads, num_tokens)
    return layer.update(states, states)


def _moves(steps: tuple[int, ...]) -> Iterator[Move]:
    """Yield a move that brings tokens to every step, and one between steps where there are two.

    Tokens are in order and move to coarser steps only, so none changes its place.
    """
    bits = (*steps, FULL_BITS)
    before = Layout.all_full(bits, _NUM_TOKENS)
    last = _NUM_TOKENS - 2 * len(steps)
    counts = [(*(2 for _ in steps), last)]
    if len(steps) > 1:
        counts.append((3, 1, *(2 for _ in steps[2:]), last))
    for after in (Layout(bits, each) for each in counts):
        yield Move(before, after, torch.arange(_NUM_TOKENS).unsqueeze(0))
        before = after


def _make(move: Move, layer: FadingLayer, positions: FadedPositions) -> None:
    transfers = transfers_of(move)
    rotation = positions.rotation_of(move.indices)
    (packed,) = pack_group([layer], transfers, rotation).packed
    layer.move(move, transfers, packed, room=_NUM_TOKENS)
    positions.set(move.indices[:, : move.after.num_faded])


def _attend(layer: FadingLayer, heads: _Heads) -> None:
    """Attend to packed tokens, watched and not, with a mask and without, then unpack them."""
    query = heads.states(heads.num_heads, 1)
    layer.hands_out_packed = True
    for is_watched in (False, True):
        keys, values = _read(layer, heads, 1)
        if not isinstance(keys, PackedStates) or not isinstance(values, PackedStates):
            return  # They were unpacked, for want of a kernel.
        bias = torch.zeros(1, keys.shape[2]) if is_watched else None
        logits = empty_logits(keys.mixed, query) if is_watched else None
        attend_mixed(keys.mixed, query, heads.dim**-0.5, bias, logits)
        keys.unpacked()
        values.unpacked()
