"""Partial attention joins to torch's own attention over all tokens."""

from __future__ import annotations

import math

import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn.functional import scaled_dot_product_attention

from memdecay.runtime.precision.kernels.reference import attend_exact, attend_packed

from .packed import random_parts, random_query


@given(
    cut=st.integers(1, 39),
    group=st.integers(1, 4),
    num_hidden=st.integers(0, 39),
    seed=st.integers(0, 20),
)
def test_joined_parts_equal_attention_over_all(
    cut: int, group: int, num_hidden: int, seed: int
) -> None:
    generator = torch.Generator().manual_seed(seed)
    keys, values = torch.randn(2, 2, 3, 40, 16, generator=generator)
    query = torch.randn(2, 3 * group, 2, 16, generator=generator)
    bias = torch.zeros(2, 40)
    bias[0, :num_hidden] = -math.inf

    old = attend_exact(query, keys[:, :, :cut], values[:, :, :cut], 0.25, bias[:, :cut])
    new = attend_exact(query, keys[:, :, cut:], values[:, :, cut:], 0.25, bias[:, cut:])

    expected = scaled_dot_product_attention(
        query, keys, values, attn_mask=bias[:, None, None], scale=0.25, enable_gqa=True
    )
    torch.testing.assert_close(old.join(new).output, expected)
    torch.testing.assert_close(new.join(old).output, expected)


def test_nothing_seen_joins_to_nothing() -> None:
    keys = torch.randn(1, 1, 4, 8)
    hidden = attend_exact(keys, keys, keys, 1.0, torch.full((1, 4), -math.inf))

    joined = hidden.join(hidden)

    assert torch.equal(joined.output, torch.zeros(1, 1, 4, 8))
    assert bool(joined.lse.isneginf().all())


def test_packed_tokens_are_attended_to_as_they_come_back() -> None:
    parts = random_parts([(2, 20), (4, 10)], key_dim=16)
    query = random_query(parts, group=2)

    ours = attend_packed(query, parts, 0.25)

    keys, values = (
        torch.cat(states, 2) for states in zip(*(p.decode() for p in parts), strict=True)
    )
    expected = scaled_dot_product_attention(query, keys, values, scale=0.25, enable_gqa=True)
    torch.testing.assert_close(ours.output, expected)
