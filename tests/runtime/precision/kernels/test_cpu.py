"""The CPU's kernel gives what plain torch gives on the unpacked tokens."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from memdecay.runtime.precision.kernels import dispatch, reference
from memdecay.runtime.precision.kernels.dispatch import find_kernel
from memdecay.runtime.precision.kernels.parts import Attended, ExactPart

from .packed import random_parts, random_query

pytest.importorskip("numba")

from memdecay.runtime.precision.kernels.cpu.attend import attend_packed


def assert_close(ours: Attended, theirs: Attended) -> None:
    torch.testing.assert_close(ours.output, theirs.output, atol=3e-5, rtol=1e-4)
    torch.testing.assert_close(ours.lse, theirs.lse, atol=3e-5, rtol=1e-5)


@given(
    steps=st.lists(st.sampled_from([8, 4, 2]), min_size=1, max_size=3, unique=True),
    count=st.integers(1, 70),
    batch_size=st.integers(1, 3),
    num_key_heads=st.integers(1, 3),
    group=st.integers(1, 7),
    num_queries=st.integers(1, 3),
    dim=st.sampled_from([8, 24, 64, 80, 128]),
    turned=st.sampled_from([0.0, 0.5, 1.0]),
    is_hiding=st.booleans(),
)
def test_kernel_equals_attention_over_unpacked_tokens(
    steps: list[int],
    count: int,
    batch_size: int,
    num_key_heads: int,
    group: int,
    num_queries: int,
    dim: int,
    turned: float,
    is_hiding: bool,
) -> None:
    counts = [(bits, count + 13 * place) for place, bits in enumerate(steps)]
    parts = random_parts(
        counts,
        batch_size=batch_size,
        num_key_heads=num_key_heads,
        key_dim=dim,
        rotary_dim=int(dim * turned) // 2 * 2,
    )
    query = random_query(parts, group, num_queries)
    bias = None
    if is_hiding:
        bias = torch.randn(batch_size, sum(n for _, n in counts))
        bias[:, ::3] = -math.inf

    ours = attend_packed(query, parts, dim**-0.5, bias)

    assert_close(ours, reference.attend_packed(query, parts, dim**-0.5, bias))


@pytest.mark.parametrize("num_threads", [1, 2, 3])
def test_many_runs_are_joined_whatever_the_threads(num_threads: int) -> None:
    parts = random_parts([(2, 1500), (4, 513)], batch_size=2)
    query = random_query(parts, group=3)
    before = torch.get_num_threads()
    torch.set_num_threads(num_threads)
    try:
        ours = attend_packed(query, parts, 0.3)
    finally:
        torch.set_num_threads(before)

    assert_close(ours, reference.attend_packed(query, parts, 0.3))


def test_values_may_be_of_another_width() -> None:
    parts = random_parts([(4, 20), (2, 9)], key_dim=64, value_dim=32)
    query = random_query(parts, group=2)

    assert_close(attend_packed(query, parts, 0.1), reference.attend_packed(query, parts, 0.1))


def test_a_row_that_sees_no_token_gets_zero() -> None:
    parts = random_parts([(2, 600)], batch_size=2)
    query = random_query(parts, group=2)
    bias = torch.zeros(2, 600)
    bias[1] = -math.inf

    ours = attend_packed(query, parts, 0.1, bias)

    assert torch.equal(ours.output[1], torch.zeros_like(ours.output[1]))
    assert bool(ours.lse[1].isneginf().all())
    assert_close(ours, reference.attend_packed(query, parts, 0.1, bias))


def test_large_logits_do_not_overflow() -> None:
    parts = random_parts([(4, 40)])
    query = 1000 * random_query(parts, group=1)

    ours = attend_packed(query, parts, 1.0)

    assert bool(ours.output.isfinite().all())
    torch.testing.assert_close(ours.output, reference.attend_packed(query, parts, 1.0).output)


def test_queries_may_be_of_low_precision() -> None:
    parts = random_parts([(4, 40)])
    query = random_query(parts, group=1).to(torch.bfloat16)

    assert_close(attend_packed(query, parts, 0.2), reference.attend_packed(query, parts, 0.2))


def test_the_kernel_is_found_on_the_cpu_alone() -> None:
    assert find_kernel(torch.device("cpu")) is attend_packed
    assert find_kernel(torch.device("meta")) is None


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("num_exact", [1, 9, 600])
@pytest.mark.parametrize("is_hiding", [False, True])
def test_exact_tokens_join_the_packed(dtype: torch.dtype, num_exact: int, is_hiding: bool) -> None:
    parts = random_parts([(2, 20), (4, 10)], batch_size=2)
    query = random_query(parts, group=4)
    # Views of the front of longer buffers, as a layer keeps them.
    keys, values = torch.randn(2, 2, 2, 700, 64).to(dtype)[:, :, :, :num_exact]
    bias = torch.randn(2, 30 + num_exact) if is_hiding else None

    ours = dispatch.attend_mixed(query, parts, ExactPart(keys, values), 0.125, bias)

    packed_bias, exact_bias = (None, None) if bias is None else (bias[:, :30], bias[:, 30:])
    expected = reference.attend_packed(query, parts, 0.125, packed_bias).join(
        reference.attend_exact(query, keys, values, 0.125, exact_bias)
    )
    assert_close(ours, expected)


@pytest.mark.parametrize("num_exact", [0, 9, 600])
def test_the_logits_are_handed_out_as_they_are_before_the_bias(num_exact: int) -> None:
    parts = random_parts([(2, 520), (4, 10)], batch_size=2)
    query = random_query(parts, group=4, num_queries=2)
    exact = torch.randn(2, 2, 2, num_exact, 64)
    bias = torch.randn(2, 530 + num_exact)
    logits = torch.full((2, 8, 2, 530 + num_exact), math.nan)

    ours = dispatch.attend_mixed(
        query, parts, ExactPart(*exact) if num_exact else None, 0.125, bias, logits
    )

    packed = torch.cat([part.decode()[0] for part in parts], dim=2)
    keys = torch.cat([packed, exact[0]], dim=2).repeat_interleave(4, dim=1)
    torch.testing.assert_close(logits, 0.125 * query @ keys.mT, atol=3e-5, rtol=1e-4)
    assert_close(
        ours,
        dispatch.attend_mixed(query, parts, ExactPart(*exact) if num_exact else None, 0.125, bias),
    )


@given(
    bits=st.sampled_from([8, 4, 2]),
    count=st.integers(1, 70),
    batch_size=st.integers(1, 2),
    dim=st.sampled_from([8, 24, 64, 80]),
    turned=st.sampled_from([0.0, 0.5, 1.0]),
)
def test_tokens_are_unpacked_as_by_torch(
    bits: int, count: int, batch_size: int, dim: int, turned: float
) -> None:
    parts = random_parts(
        [(bits, count), (4, 40)],
        batch_size=batch_size,
        key_dim=dim,
        rotary_dim=int(dim * turned) // 2 * 2,
    )
    ours, theirs = (torch.full((2, batch_size, 2, count + 45, dim), 7.0) for _ in range(2))

    dispatch.unpack_into(*ours, parts)

    reference.unpack_into(*theirs, parts)
    torch.testing.assert_close(ours, theirs, atol=1e-4, rtol=1e-5)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_keys_or_values_may_stay_packed(dtype: torch.dtype) -> None:
    parts = random_parts([(4, 40), (2, 33)])
    keys, values, both_keys, both_values = torch.full((4, 1, 2, 75, 64), 7.0, dtype=dtype)

    dispatch.unpack_into(keys, None, parts)
    dispatch.unpack_into(None, values, parts)

    dispatch.unpack_into(both_keys, both_values, parts)
    assert torch.equal(keys, both_keys)
    assert torch.equal(values, both_values)


def test_tokens_are_unpacked_into_low_precision_too() -> None:
    parts = random_parts([(4, 40)])
    ours = torch.zeros(2, 1, 2, 40, 64, dtype=torch.bfloat16)

    dispatch.unpack_into(*ours, parts)

    torch.testing.assert_close(ours[0], parts[0].decode()[0].to(torch.bfloat16))
