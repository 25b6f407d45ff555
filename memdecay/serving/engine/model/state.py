"""A session's memory as plain tensors, to be kept elsewhere and put back exactly."""

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
from memdecay.serving.engine.model.memory import SessionMemory

_CACHE = "cache."
_TAGGER = "tagger."
_LAST_SEEN = "recorder.last_seen"
_SLOT_COLUMNS = tuple(field.name for field in fields(Slots) if field.name != "num_seen")
_FATE_COLUMNS = tuple(field.name for field in fields(Fates))


def save_memory(memory: SessionMemory, device: torch.device) -> dict[str, Tensor]:
    """Copy what a session remembers.

    Args:
        memory: A memory that has seen at least one token.
        device: Where the copies shall lie.

    Returns:
        Tensors by name; counts are int64 tensors without dimensions.
    """
    with bookkeeping():
        state = {_CACHE + name: value for name, value in _cache_state(memory.cache).items()}
        if memory.tagger is not None:
            tagger_state = memory.tagger.state_dict()
            state |= {_TAGGER + name: value for name, value in tagger_state.items()}
        if memory.recorder is not None:
            state[_LAST_SEEN] = torch.tensor(memory.recorder.last_seen)
        return {
            name: value.detach().to(device, copy=True).contiguous() for name, value in state.items()
        }


def load_memory(memory: SessionMemory, state: Mapping[str, Tensor], device: torch.device) -> None:
    """Put back what `save_memory` copied; the state itself stays as it is.

    Args:
        memory: An empty memory of the same model, configuration and tagger.
        state: The copies.
        device: Where the model's keys and values lie.

    Raises:
        ValueError: The state has not the parts that this memory needs.
    """
    with bookkeeping():
        placed = {name: value.to(device, copy=True) for name, value in state.items()}
        try:
            _load_cache(memory.cache, _part(placed, _CACHE))
            if memory.tagger is not None:
                memory.tagger.load_state_dict(_part(placed, _TAGGER))
            if memory.recorder is not None:
                memory.recorder.last_seen = int(placed[_LAST_SEEN])
        except (KeyError, RuntimeError) as error:
            memory.forget()
            raise ValueError(
                f"the saved memory does not fit this model and classifier ({error}); read the "
                "conversation again"
            ) from error


def state_bytes(state: Mapping[str, Tensor]) -> int:
    """Return the bytes that a saved memory takes."""
    return sum(value.nbytes for value in state.values())


def _part(state: Mapping[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {
        name.removeprefix(prefix): value for name, value in state.items() if name.startswith(prefix)
    }


def _cache_state(cache: DecayCache) -> dict[str, Tensor]:
    slots = cache.slots
    state = {f"slots.{name}": getattr(slots, name) for name in _SLOT_COLUMNS}
    state["slots.num_seen"] = torch.tensor(slots.num_seen)
    state["evicted"] = cache._evicted
    state["num_evicted"] = torch.tensor(cache._num_evicted)
    state["pins"] = torch.tensor(cache._pins, dtype=torch.int64).reshape(-1, 2)
    if cache._fates is not None:
        state |= {f"fates.{name}": getattr(cache._fates, name) for name in _FATE_COLUMNS}
    if cache._faded is not None:
        state["faded_positions"] = cache._faded._positions
    for index, layer in enumerate(cache.layers):
        for name, value in _layer_state(layer).items():
            state[f"layers.{index}.{name}"] = value
    return state


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


def _load_cache(cache: DecayCache, state: Mapping[str, Tensor]) -> None:
    for index, layer in enumerate(cache.layers):
        _load_layer(layer, _part(state, f"layers.{index}."))
        if isinstance(layer, EvictingLayer):
            cache._bytes.replace(0, layer.allocated_bytes)
    if cache._faded is not None:
        cache._faded.set(state["faded_positions"])
    columns = {name: state[f"slots.{name}"] for name in _SLOT_COLUMNS}
    cache._slots = Slots(**columns, num_seen=int(state["slots.num_seen"]))
    cache._evicted = state["evicted"]
    cache._num_evicted = int(state["num_evicted"])
    cache._pins = tuple((int(start), int(stop)) for start, stop in state["pins"])
    if "fates.bits" in state:
        cache._fates = Fates(**{name: state[f"fates.{name}"] for name in _FATE_COLUMNS})


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
            layer._basis = KeyBasis(state["basis.mean"], state["basis.directions"])
