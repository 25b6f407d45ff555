"""A session's memory as plain tensors, to be kept elsewhere and put back exactly."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from memdecay.runtime.cache_state import (
    KEPT_POSITIONS,
    cache_state,
    load_cache_state,
    part_of_state,
)
from memdecay.runtime.layer import bookkeeping
from memdecay.serving.engine.model.memory import SessionMemory
from memdecay.serving.engine.model.token_states import has_tokens

_CACHE = "cache."
_TAGGER = "tagger."
_LAST_SEEN = "recorder.last_seen"


def memory_state(memory: SessionMemory) -> dict[str, Tensor]:
    """Return what a session remembers; the tensors are the memory's own and change with it.

    Args:
        memory: A memory that has seen at least one token.

    Returns:
        Tensors by name; counts are int64 tensors without dimensions.
    """
    with bookkeeping():
        state = {_CACHE + name: value for name, value in cache_state(memory.cache).items()}
        if memory.tagger is not None:
            tagger_state = memory.tagger.state_dict()
            state |= {_TAGGER + name: value for name, value in tagger_state.items()}
        if memory.recorder is not None:
            state[_LAST_SEEN] = torch.tensor(memory.recorder.last_seen)
        return state


def save_memory(memory: SessionMemory, device: torch.device) -> dict[str, Tensor]:
    """Copy what a session remembers, see `memory_state`.

    Args:
        memory: A memory that has seen at least one token.
        device: Where the copies shall lie.
    """
    with bookkeeping():
        return {
            name: value.detach().to(device, copy=True).contiguous()
            for name, value in memory_state(memory).items()
        }


def load_memory(memory: SessionMemory, state: Mapping[str, Tensor], device: torch.device) -> None:
    """Put back what `memory_state` returned; the state itself stays as it is.

    Args:
        memory: An empty memory of the same model, configuration and tagger.
        state: The copies.
        device: Where the model's keys and values lie.

    Raises:
        ValueError: The state has not the parts that this memory needs.
    """
    with bookkeeping():
        placed = {
            # Layers copy their tokens into buffers of their own.
            name: value.to(device, copy=not has_tokens(name))
            for name, value in state.items()
        }
        try:
            load_cache_state(memory.cache, part_of_state(placed, _CACHE))
            if memory.tagger is not None:
                memory.tagger.load_state_dict(part_of_state(placed, _TAGGER))
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


def kept_positions(state: Mapping[str, Tensor]) -> Tensor:
    """Return the positions of the tokens that a saved memory keeps, ``(kept,)``, int64."""
    return state[_CACHE + KEPT_POSITIONS][0]
