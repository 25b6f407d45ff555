"""Tokens are picked as a gather along them would."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from memdecay.runtime.precision.picking import pick_tokens


def gathered(states: torch.Tensor, indices: torch.Tensor) -> torch.Tensor:
    shape = (-1, states.shape[1], -1, states.shape[3])
    return states.gather(2, indices[:, None, :, None].expand(*shape))


@given(
    batch_size=st.integers(1, 3),
    num_heads=st.integers(1, 3),
    num_picked=st.integers(0, 9),
    dtype=st.sampled_from([torch.uint8, torch.bfloat16, torch.float32]),
    seed=st.integers(0, 9),
)
def test_each_row_gives_its_own_tokens(
    batch_size: int, num_heads: int, num_picked: int, dtype: torch.dtype, seed: int
) -> None:
    generator = torch.Generator().manual_seed(seed)
    states = torch.randint(0, 200, (batch_size, num_heads, 6, 5), generator=generator).to(dtype)
    indices = torch.randint(0, 6, (batch_size, num_picked), generator=generator)

    keys, values = pick_tokens(states, states[..., :3], indices)

    assert torch.equal(keys, gathered(states, indices))
    assert torch.equal(values, gathered(states[..., :3], indices))


@pytest.mark.parametrize("dim", [0, 1, 2])
def test_a_view_of_a_larger_tensor_will_do(dim: int) -> None:
    whole = torch.arange(4 * 4 * 4 * 3).view(4, 4, 4, 3)
    states = whole.narrow(dim, 1, 2)
    indices = torch.tensor([[1, 0, 1]]).expand(states.shape[0], -1)

    assert torch.equal(pick_tokens(states, states, indices)[1], gathered(states, indices))
