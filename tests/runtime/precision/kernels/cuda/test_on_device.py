"""On a GPU the kernel gives what plain torch gives there."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import pytest
import torch

from memdecay.runtime.precision.basis import KeyBasis
from memdecay.runtime.precision.kernels import reference
from memdecay.runtime.precision.kernels.dispatch import AttendPacked, find_kernel
from memdecay.runtime.precision.kernels.parts import Attended, PackedPart
from memdecay.runtime.precision.pool import Pool
from memdecay.runtime.precision.rotary import Rotation

from ..packed import random_parts, random_query

pytestmark = [
    pytest.mark.cuda,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]

TOLERANCES = {torch.float32: 1e-4, torch.bfloat16: 5e-3, torch.float16: 5e-3}


@pytest.fixture
def kernel() -> AttendPacked:
    kernel = find_kernel(torch.device("cuda"))
    if kernel is None:
        pytest.skip("needs Triton and a GPU from Ampere on")
    return kernel


def on_cuda(parts: Sequence[PackedPart]) -> list[PackedPart]:
    return [
        replace(
            part,
            pool=Pool(part.pool.keys.cuda(), part.pool.values.cuda()),
            basis=KeyBasis(part.basis.mean.cuda(), part.basis.directions.cuda()),
            rotation=Rotation(part.rotation.cos.cuda(), part.rotation.sin.cuda()),
        )
        for part in parts
    ]


def assert_close(ours: Attended, theirs: Attended, dtype: torch.dtype) -> None:
    tolerance = TOLERANCES[dtype]
    torch.testing.assert_close(ours.output.cpu(), theirs.output, atol=tolerance, rtol=tolerance)
    torch.testing.assert_close(ours.lse.cpu(), theirs.lse, atol=tolerance, rtol=tolerance)


@pytest.mark.parametrize("dtype", TOLERANCES)
@pytest.mark.parametrize("head_dim", [64, 96, 128, 256])
def test_kernel_equals_plain_torch(kernel: AttendPacked, dtype: torch.dtype, head_dim: int) -> None:
    parts = random_parts([(2, 700), (4, 333)], batch_size=2, key_dim=head_dim)
    query = random_query(parts, group=4).to(dtype)
    bias = torch.zeros(2, 1033)
    bias[1, :90] = -math.inf

    ours = kernel(query.cuda(), on_cuda(parts), head_dim**-0.5, bias.cuda())

    assert_close(ours, reference.attend_packed(query, parts, head_dim**-0.5, bias), dtype)


@pytest.mark.parametrize("counts", [[(8, 1)], [(2, 5000), (4, 31), (8, 64)]])
@pytest.mark.parametrize("group", [1, 3, 8])
def test_any_number_of_tokens_and_heads(
    kernel: AttendPacked, counts: list[tuple[int, int]], group: int
) -> None:
    parts = random_parts(counts)
    query = random_query(parts, group, num_queries=2).to(torch.bfloat16)

    ours = kernel(query.cuda(), on_cuda(parts), 0.125)

    assert_close(ours, reference.attend_packed(query, parts, 0.125), torch.bfloat16)


def test_no_copy_of_keys_or_values_is_made(kernel: AttendPacked) -> None:
    parts = on_cuda(random_parts([(2, 20_000)], num_key_heads=2, key_dim=128))
    query = random_query(parts, group=2).to("cuda", torch.bfloat16)
    kernel(query, parts, 0.1)
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()

    kernel(query, parts, 0.1)

    torch.cuda.synchronize()
    dense_bytes = 2 * 20_000 * 2 * 128 * 2
    assert torch.cuda.max_memory_allocated() - before < dense_bytes / 20
