"""A cache as plain tensors, to be kept elsewhere and put back exactly."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

import torch
from torch import Tensor

from memdecay.runtime.cache import DecayCache
from memdecay.runtime.fading_layer import FadingLayer
from memdecay.runtime.fates import Fates
from memdecay.runtime.layer import EvictingLayer, bookkeeping
from memdecay.runtime.metadata import Slots
from memdecay.runtime.precision.basis import KeyBasis
from memdecay.runtime.precision.pool import Pool

KEPT_POSITIONS = "slots.positions"
"""Name of the kept tokens' positions, ``(batch, kept)``, int64."""

_SLOT_COLUMNS = tuple(field.name for field in fields(Slots) if field.name != "num_seen")
_FATE_COLUMNS = tuple(field.name for field in fields(Fates))


def cache_state(cache: DecayCache) -> dict[str, Tensor]:
    """Return all that a cache holds; the tensors are the cache's own and change with it.

    Args:
        cache: A cache that has seen at least one token.

    Returns:
        Tensors by name; counts are int64 tensors without dimensions.
    """
    with bookkeeping():
        slots = cache.slots
        state = {f"slots.{name}": getattr(slots, name) for name in _SLOT_COLUMNS}
        state["slots.num_seen"] = torch.tensor(slots.num_seen)
        state["evicted"] = cache._evicted
        state["num_evicted"] = torch.tensor(cache._num_evicted)
        state["looked_at"] = torch.tensor(cache._looks.last_seen)
        state["pins"] = torch.tensor(cache._pins, dtype=torch.int64).reshape(-1, 2)
        if cache._fates is not None:
            state |= {f"fates.{name}": getattr(cache._fates, name) for name in _FATE_COLUMNS}
        if cache._faded is not None:
            state["faded_positions"] = cache._faded._positions
        for index, layer in enumerate(cache.layers):
            state |= {f"layers.{index}.{key}": part for key, part in _layer_state(layer).items()}
        return state


def load_cache_state(cache: DecayCache, state: Mapping[str, Tensor]) -> None:
    """Put back what `cache_state` returned; the cache takes the tensors over.

    Args:
        cache: An empty cache of the same model and configuration.
        state: The tensors, on the device of the model's keys and values.

    Raises:
        KeyError: A part is missing; the cache has to be reset then.
        RuntimeError: A part has another shape; the cache has to be reset then.
    """
    with bookkeeping():
        for index, layer in enumerate(cache.layers):
            _load_layer(layer, part_of_state(state, f"layers.{index}."))
            if isinstance(layer, EvictingLayer):
                cache._bytes.replace(0, layer.allocated_bytes)
        if cache._faded is not None:
            cache._faded.set(state["faded_positions"])
        columns = {name: state[f"slots.{name}"] for name in _SLOT_COLUMNS}
        cache._slots = Slots(**columns, num_seen=int(state["slots.num_seen"]))
        cache._evicted = state["evicted"]
        cache._num_evicted = int(state["num_evicted"])
        cache._looks.last_seen = int(state["looked_at"])
        cache._pins = tuple((int(start), int(stop)) for start, stop in state["pins"])
        if "fates.bits" in state:
            cache._fates = Fates(**{name: state[f"fates.{name}"] for name in _FATE_COLUMNS})


def part_of_state(state: Mapping[str, Tensor], prefix: str) -> dict[str, Tensor]:
    """Return the tensors whose names begin so, without that beginning."""
    return {
        name.removeprefix(prefix): value for name, value in state.items() if name.startswith(prefix)
    }


def _layer_state(layer: Any) -> dict[str, Tensor]:
    state = {
        "keys": layer.keys,
        "values": layer.values,
        "num_seen": torch.tensor(layer.get_seq_length()),
    }
    if isinstance(layer, FadingLayer):
        state["capacity"] = torch.tensor(layer.capacity)
        for bits, pool in layer._pools.items():
            state |= {f"pools.{bits}.keys": pool.keys, f"pools.{bits}.values": pool.values}
        if layer._basis is not None:
            state["basis.mean"] = layer._basis.mean
            state["basis.directions"] = layer._basis.directions
    return state


def _load_layer(layer: Any, state: Mapping[str, Tensor]) -> None:
    if isinstance(layer, FadingLayer):
        layer.capacity = int(state["capacity"])
    layer.update(state["keys"], state["values"])
    if not isinstance(layer, EvictingLayer):
        layer.cumulative_length = int(state["num_seen"])
        return
    layer.num_seen = int(state["num_seen"])
    if isinstance(layer, FadingLayer):
        layer._pools = {
            bits: Pool(state[f"pools.{bits}.keys"], state[f"pools.{bits}.values"])
            for bits in layer._steps
            if f"pools.{bits}.keys" in state
        }
        if "basis.mean" in state:
            # Caches written by earlier versions hold the same numbers in float32.
            mean, directions = state["basis.mean"].half(), state["basis.directions"].half()
            layer._basis = KeyBasis(mean, directions)
