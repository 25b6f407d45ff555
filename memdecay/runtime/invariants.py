"""What must hold between two forwards: the cache's books agree with its buffers."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from memdecay.runtime.cache import DecayCache
from memdecay.runtime.fading_layer import FadingLayer
from memdecay.runtime.layer import EvictingLayer
from memdecay.runtime.precision.layout import FULL_BITS


class InvariantError(RuntimeError):
    """The cache contradicts itself: a defect of memdecay, not of its use."""


def check_invariants(cache: DecayCache) -> None:
    """Check that what the cache knows of its tokens is what its buffers hold.

    Args:
        cache: Between two forwards; it is not changed.

    Raises:
        InvariantError: Something does not hold; the message names all that does not.
    """
    if broken := [*_broken(cache)]:
        raise InvariantError(f"after {cache.tokens_seen} tokens: {'; '.join(broken)}")


def _broken(cache: DecayCache) -> Iterator[str]:
    if not cache.tokens_seen:
        return
    yield from _broken_counts(cache)
    yield from _broken_positions(cache)
    yield from _broken_layers(cache)
    yield from _broken_bytes(cache)


def _broken_counts(cache: DecayCache) -> Iterator[str]:
    slots, kept, seen = cache.slots, cache.tokens_kept, cache.tokens_seen
    yield from _unless_equal("tokens kept and slots", kept, slots.num_kept)
    yield from _unless_equal("tokens kept and the layout's", kept, cache.layout.num_tokens)
    yield from _unless_equal("tokens seen and the slots'", seen, slots.num_seen)
    for name in ("importance", "decay", "regions", "attention", "is_pinned", "is_template"):
        column = getattr(slots, name)
        yield from _unless_equal(f"{name} and positions", column.shape, slots.positions.shape)
    in_rows = seen * len(slots.positions) - int(slots.pad_lengths.sum())
    counted = sum(cache.kept_per_region().values()) + sum(cache.evicted_per_region().values())
    yield from _unless_equal("real tokens seen and those kept or evicted", in_rows, counted)


def _broken_positions(cache: DecayCache) -> Iterator[str]:
    slots = cache.slots
    ordered = slots.positions.sort(dim=1).values
    if bool((ordered.diff(dim=1) <= 0).any()):
        yield "a position is kept twice"
    if slots.num_kept and not bool((ordered[:, -1] == slots.num_seen - 1).all()):
        yield "the newest token is gone"
    if slots.num_kept and int(ordered[:, 0].min()) < 0:
        yield "a position is below zero"
    full = slots.positions[:, cache.layout.num_faded :]
    if bool((full.diff(dim=1) <= 0).any()):
        yield "the tokens at full precision are not in the order of the text"
    if cache.policy.protects_sinks and cache.policy.evicts:
        real = (slots.num_seen - slots.pad_lengths).clamp_max(cache.config.num_sinks)
        if not torch.equal(slots.is_sink(cache.config.num_sinks).sum(dim=1), real):
            yield "a sink is gone"


def _broken_layers(cache: DecayCache) -> Iterator[str]:
    for idx, layer in enumerate(cache.layers):
        if not isinstance(layer, EvictingLayer):
            continue
        name = f"layer {idx}"
        yield from _unless_equal(f"tokens seen and {name}'s", cache.tokens_seen, layer.num_seen)
        yield from _unless_equal(f"tokens kept and {name}'s", cache.tokens_kept, layer.num_kept)
        for states in (layer.keys, layer.values):
            yield from _unless_equal(f"{name}'s counts", layer.num_buffered, states.shape[2])
        if isinstance(layer, FadingLayer):
            yield from _unless_equal(f"the layout and {name}'s", cache.layout, layer.layout)
            yield from _unless_equal(
                f"{name}'s tokens at full precision", layer.layout.num_full, layer.num_buffered
            )
    yield from _unless_equal("the layout's last step", cache.layout.bits[-1], FULL_BITS)


def _broken_bytes(cache: DecayCache) -> Iterator[str]:
    layers = [layer for layer in cache.layers if isinstance(layer, EvictingLayer)]
    held = sum(layer.allocated_bytes for layer in layers) + cache.waiting_bytes
    yield from _unless_equal("bytes accounted for and allocated", cache.allocated_bytes, held)
    budget = cache.config.budget_tokens * cache.bytes_per_token
    if cache.policy.evicts and cache.allocated_bytes > budget:
        yield f"{cache.allocated_bytes} bytes are allocated of a budget of {budget}"


def _unless_equal(what: str, first: object, second: object) -> Iterator[str]:
    if first != second:
        yield f"{what} differ: {first} and {second}"
