"""The kernels compile for GPUs, which needs no GPU, and fit their shared memory."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch

from ..packed import random_parts

pytest.importorskip("triton")

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from memdecay.runtime.precision.kernels.cuda.attend import OPTIONS, Tuning
from memdecay.runtime.precision.kernels.cuda.merge import merge_splits
from memdecay.runtime.precision.kernels.cuda.shapes import LEAST_WIDTH, Shapes
from memdecay.runtime.precision.kernels.cuda.split import attend_splits
from memdecay.runtime.precision.kernels.cuda.splits import MOST_SPLITS

LEAST_SHARED_MEMORY = 99 * 1024
"""What a program may have on every GPU from Ampere on."""

FLOATS = {torch.float32: "*fp32", torch.bfloat16: "*bf16"}
BYTES, SINGLES = "*u8", "*fp32"


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))


def compiled(
    kernel: Any, types: Mapping[str, Any], constants: Mapping[str, Any], capability: int
) -> Any:
    """Compile a kernel for a GPU; parameters without a type or value are 32-bit integers."""
    names = inspect.signature(kernel.fn).parameters
    signature = {
        name: "constexpr" if name in constants else types.get(name, "i32") for name in names
    }
    return triton.compile(
        ASTSource(kernel, signature, dict(constants)),
        target=GPUTarget("cuda", capability, 32),
        options=dict(OPTIONS),
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("capability", "dtype", "head_dim", "bits"),
    [(80, torch.float32, 64, (8,)), (90, torch.bfloat16, 64, (2, 8))],
)
def test_attention_over_splits(
    capability: int, dtype: torch.dtype, head_dim: int, bits: tuple[int, ...]
) -> None:
    shapes = Shapes.of(random_parts([(step, 3) for step in bits], key_dim=head_dim))
    assert shapes is not None
    types = {
        "query": FLOATS[dtype],
        "parts": ((BYTES, BYTES, *(SINGLES,) * 4),) * len(bits),
        **dict.fromkeys(("bias", "outputs", "sums"), SINGLES),
        "scale": "fp32",
    }
    constants = {**shapes.constants(), **Tuning.of(dtype, head_dim).constants(), "ROWS": 16}

    kernel = compiled(attend_splits, types, constants, capability)

    assert kernel.asm["cubin"]
    assert "mma" in kernel.asm["ptx"], "products run on tensor cores"
    assert kernel.metadata.shared <= LEAST_SHARED_MEMORY


@pytest.mark.slow
def test_joining_of_splits() -> None:
    types = dict.fromkeys(("outputs", "sums", "merged", "lse"), SINGLES)
    shapes = Shapes.of(random_parts([(4, 3)], key_dim=128))
    assert shapes is not None
    constants = {
        **shapes.value_constants(),
        "MOST_SPLITS": MOST_SPLITS,
        "BLOCK": LEAST_WIDTH,
    }

    kernel = compiled(merge_splits, types, constants, capability=90)

    assert kernel.asm["cubin"]
    assert kernel.metadata.shared <= LEAST_SHARED_MEMORY
