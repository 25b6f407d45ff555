"""Linear layers that take few tokens another way than many."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from memdecay.serving.engine.model.few_rows import MOST_ROWS, few_rows_fast


class Odd(nn.Linear):
    """A layer of a class that may compute something else."""


@pytest.mark.parametrize("shape", [(2, 1), (4, 1), (1, 5), (MOST_ROWS, 1), (1, 1), (3, 40), (2, 0)])
@pytest.mark.parametrize("has_bias", [True, False])
def test_outputs_are_those_of_the_layer(shape: tuple[int, int], has_bias: bool) -> None:
    layer = nn.Linear(24, 40, bias=has_bias)
    inputs = torch.randn(*shape, 24)
    expected = layer(inputs)
    with few_rows_fast(layer):
        found = layer(inputs)
    assert found.is_contiguous()
    assert_close(found, expected)


def test_gradients_and_strided_inputs_are_right() -> None:
    layer = nn.Linear(6, 3)
    inputs = torch.randn(6, 4).t()
    expected = torch.autograd.grad(layer(inputs).sum(), layer.weight)
    with few_rows_fast(layer):
        found = torch.autograd.grad(layer(inputs).sum(), layer.weight)
    assert_close(found, expected)


def test_layers_are_as_before_behind_the_block() -> None:
    model = nn.Sequential(nn.Linear(4, 4), Odd(4, 4), nn.Linear(4, 4).to(torch.bfloat16))
    with few_rows_fast(model):
        assert ["forward" in vars(layer) for layer in model] == [True, False, False]
    assert not any("forward" in vars(layer) for layer in model)
