"""Triton compiles once for a model, not for every number of tokens."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from ..packed import random_parts, random_query

pytest.importorskip("triton")

from triton.backends.compiler import GPUTarget
from triton.compiler import make_backend
from triton.runtime.jit import create_function_from_signature

from memdecay.runtime.precision.kernels.cuda import attend
from memdecay.runtime.precision.kernels.cuda.merge import merge_splits
from memdecay.runtime.precision.kernels.cuda.split import attend_splits

Call = tuple[tuple[Any, ...], dict[str, Any]]


class RecordedKernel:
    """Stands for a kernel and notes how it is launched."""

    def __init__(self) -> None:
        self.calls: list[Call] = []

    def __getitem__(self, _grid: tuple[int, ...]) -> Callable[..., None]:
        return lambda *args, **kwargs: self.calls.append((args, kwargs))


def variants(kernel: Any, calls: list[Call]) -> set[str]:
    """Return what Triton tells launches apart by."""
    backend = make_backend(GPUTarget("cuda", 90, 32))
    bind = create_function_from_signature(kernel.signature, kernel.params, backend)
    return {str(bind(*args, **kwargs)[1:]) for args, kwargs in calls}


def test_other_numbers_of_tokens_compile_nothing_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    splits, merging = RecordedKernel(), RecordedKernel()
    monkeypatch.setattr(attend, "attend_splits", splits)
    monkeypatch.setattr(attend, "merge_splits", merging)

    for counts in ([(2, 1), (4, 16)], [(2, 32), (4, 1)], [(2, 47), (4, 81)]):
        parts = random_parts(counts, batch_size=2)
        num_tokens = sum(count for _, count in counts)
        attend.attend_packed(random_query(parts, 2), parts, 0.1, torch.zeros(2, num_tokens))

    assert len(splits.calls) == len(merging.calls) == 3
    assert len(variants(attend_splits, splits.calls)) == 1
    assert len(variants(merge_splits, merging.calls)) == 1
