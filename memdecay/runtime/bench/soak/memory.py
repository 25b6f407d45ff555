"""How much memory is taken at one moment."""

from __future__ import annotations

import gc
import tracemalloc
from dataclasses import dataclass
from pathlib import Path

import torch

_STATUS = Path("/proc/self/statm")
_PAGE_BYTES = 4096


@dataclass(frozen=True, slots=True)
class Look:
    """What was taken at one moment, in bytes.

    Attributes:
        tensors: All tensors that are alive, storages that several share once.
        python: What the interpreter allocated since tracing began; 0 where it does not trace.
        process: The process's resident memory; 0 where the system does not tell.
    """

    tensors: int
    python: int
    process: int

    @classmethod
    def now(cls) -> Look:
        """Collect what is garbage and look."""
        gc.collect()
        python = tracemalloc.get_traced_memory()[0] if tracemalloc.is_tracing() else 0
        return cls(_tensor_bytes(), python, _process_bytes())


def _tensor_bytes() -> int:
    storages = {}
    for thing in gc.get_objects():
        if type(thing) in (torch.Tensor, torch.nn.Parameter):
            storage = thing.untyped_storage()
            storages[storage.data_ptr()] = storage.nbytes()
    return sum(storages.values())


def _process_bytes() -> int:
    if not _STATUS.exists():
        return 0
    return int(_STATUS.read_text().split()[1]) * _PAGE_BYTES
