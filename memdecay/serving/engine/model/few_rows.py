"""Products with a weight matrix for a few tokens at a time, in the order that a CPU does fast."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import TypeGuard

import torch
from torch import Tensor, nn
from torch.nn import functional

MOST_ROWS = 8
"""Up to so many tokens, a product costs little more than reading the weights once."""


@contextmanager
def few_rows_fast(model: nn.Module) -> Iterator[None]:
    """Let a model's linear layers on the CPU take few tokens the fast way, until the block ends.

    One forward brings one token of each session. torch's float32 product of two to eight rows with
    a transposed matrix copies the matrix on the way, and gets slower with a second thread; the
    product the other way round reads it once. Results differ by rounding only.

    Args:
        model: The model; layers of another class than torch's own, elsewhere, or of another dtype
            stay as they are.
    """
    with ExitStack() as stack:
        for module in model.modules():
            if _is_plain(module):
                module.forward = partial(_forward, module)  # type: ignore[method-assign]
                stack.callback(delattr, module, "forward")
        yield


def _is_plain(module: nn.Module) -> TypeGuard[nn.Linear]:
    if type(module) is not nn.Linear or "forward" in vars(module):
        return False
    return module.weight.device.type == "cpu" and module.weight.dtype == torch.float32


def _forward(module: nn.Linear, input: Tensor) -> Tensor:  # noqa: A002  As `nn.Linear` names it.
    num_rows = input.numel() // module.in_features
    if not 2 <= num_rows <= MOST_ROWS or input.dtype != torch.float32:
        return functional.linear(input, module.weight, module.bias)
    rows = input.reshape(num_rows, module.in_features)
    output = torch.mm(module.weight, rows.t()).t().contiguous()
    if module.bias is not None:
        output = output + module.bias
    return output.view(*input.shape[:-1], module.out_features)
