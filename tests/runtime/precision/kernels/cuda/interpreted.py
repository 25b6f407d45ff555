"""Checks of the GPU's kernel in Triton's interpreter; `test_interpreter` runs them.

They are no tests of the suite's own process: Triton has to know before it is first imported that
it shall interpret.
"""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from memdecay.runtime.precision.kernels import reference
from memdecay.runtime.precision.kernels.cuda.attend import attend_packed
from memdecay.runtime.precision.kernels.parts import Attended

from ..packed import random_parts, random_query


def assert_close(ours: Attended, theirs: Attended, tolerance: float = 2e-5) -> None:
    assert ours.output.dtype == ours.lse.dtype == torch.float32
    torch.testing.assert_close(ours.output, theirs.output, atol=tolerance, rtol=tolerance)
    torch.testing.assert_close(ours.lse, theirs.lse, atol=tolerance, rtol=tolerance)


def random_bias(batch_size: int, num_tokens: int) -> Tensor:
    """Return a bias that hides a third of the tokens."""
    bias = torch.randn(batch_size, num_tokens, generator=torch.Generator().manual_seed(1))
    bias[:, ::3] = -math.inf
    return bias


@pytest.mark.parametrize("bits", [2, 4, 8])
@pytest.mark.parametrize("count", [1, 33])
def test_every_step_and_any_number_of_tokens(bits: int, count: int) -> None:
    parts = random_parts([(bits, count)], num_key_heads=1)
    query = random_query(parts, group=1)

    assert_close(attend_packed(query, parts, 0.2), reference.attend_packed(query, parts, 0.2))


@pytest.mark.parametrize("group", [1, 3, 4, 8])
def test_heads_that_share_a_key_head(group: int) -> None:
    parts = random_parts([(4, 20)], num_key_heads=1 + (group == 3))
    query = random_query(parts, group)

    assert_close(attend_packed(query, parts, 0.2), reference.attend_packed(query, parts, 0.2))


def test_steps_rows_and_padding_mixed() -> None:
    parts = random_parts([(2, 70), (4, 33), (8, 9)], batch_size=2, num_key_heads=1)
    query = random_query(parts, group=2)
    bias = random_bias(2, 120)[:, :112]

    ours = attend_packed(query, parts, 0.2, bias)

    assert_close(ours, reference.attend_packed(query, parts, 0.2, bias))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_queries_of_16_bits_are_multiplied_in_half_precision(dtype: torch.dtype) -> None:
    parts = random_parts([(2, 70), (4, 30), (8, 10)], num_key_heads=1)
    query = random_query(parts, group=2).to(dtype)

    ours = attend_packed(query, parts, 0.2)

    assert_close(ours, reference.attend_packed(query, parts, 0.2), tolerance=3e-3)


@pytest.mark.parametrize(
    ("key_dim", "value_dim", "rotary_dim"),
    [(64, 64, 32), (64, 32, 0), (96, 96, 96), (128, 128, 128), (192, 64, 192), (8, 8, 8)],
)
def test_widths_of_heads(key_dim: int, value_dim: int, rotary_dim: int) -> None:
    parts = random_parts(
        [(2, 20), (4, 9)],
        num_key_heads=1,
        key_dim=key_dim,
        value_dim=value_dim,
        rotary_dim=rotary_dim,
    )
    query = random_query(parts, group=2)

    assert_close(attend_packed(query, parts, 0.1), reference.attend_packed(query, parts, 0.1))


def test_widest_heads_in_half_precision() -> None:
    parts = random_parts([(4, 35)], num_key_heads=1, key_dim=256)
    query = random_query(parts, group=1).to(torch.bfloat16)

    ours = attend_packed(query, parts, 0.06)

    assert_close(ours, reference.attend_packed(query, parts, 0.06), tolerance=3e-3)


def test_more_queries_than_a_program_takes() -> None:
    parts = random_parts([(8, 10)], num_key_heads=1, key_dim=8)
    query = random_query(parts, group=3, num_queries=22)

    assert_close(attend_packed(query, parts, 0.2), reference.attend_packed(query, parts, 0.2))


def test_queries_that_are_views() -> None:
    parts = random_parts([(8, 10)], batch_size=2, key_dim=8)
    states = random_query(parts, group=2, num_queries=2).transpose(1, 2).contiguous()
    query = states.transpose(1, 2)

    assert not query.is_contiguous()
    assert_close(attend_packed(query, parts, 0.2), reference.attend_packed(query, parts, 0.2))


def test_a_row_that_sees_no_token_gets_zero() -> None:
    parts = random_parts([(2, 70)], batch_size=2, num_key_heads=1)
    query = random_query(parts, group=2)
    bias = torch.zeros(2, 70)
    bias[1] = -math.inf

    ours = attend_packed(query, parts, 0.1, bias)

    assert torch.equal(ours.output[1], torch.zeros_like(ours.output[1]))
    assert bool(ours.lse[1].isneginf().all())
    assert_close(ours, reference.attend_packed(query, parts, 0.1, bias))


def test_large_logits_do_not_overflow() -> None:
    parts = random_parts([(4, 70)], num_key_heads=1)
    query = 1000 * random_query(parts, group=1)

    ours = attend_packed(query, parts, 1.0)

    assert bool(ours.output.isfinite().all())
    torch.testing.assert_close(
        ours.output, reference.attend_packed(query, parts, 1.0).output, atol=1e-3, rtol=1e-3
    )


def test_heads_that_the_kernel_cannot_do_are_unpacked() -> None:
    parts = random_parts([(4, 10)], key_dim=24)
    query = random_query(parts, group=1)

    ours = attend_packed(query, parts, 0.2)

    assert torch.equal(ours.output, reference.attend_packed(query, parts, 0.2).output)
