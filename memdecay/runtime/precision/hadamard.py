"""The Hadamard rotation, which spreads a vector's outliers over all of its elements."""

from __future__ import annotations

import functools

import torch
from torch import Tensor


@functools.cache
def hadamard_matrix(size: int) -> Tensor:
    """Return an orthogonal, symmetric matrix ``(size, size)``, float32, on the CPU.

    Its blocks are Sylvester's Hadamard matrices of the largest power of two that divides the
    size: applied twice it gives the vector back.

    Raises:
        ValueError: The size is below 1.
    """
    if size < 1:
        raise ValueError(f"size must be 1 or more, got {size}")
    width = size & -size
    block = torch.ones(1, 1)
    while block.shape[0] < width:
        block = torch.cat([torch.cat([block, block], 1), torch.cat([block, -block], 1)], 0)
    return torch.kron(torch.eye(size // width), block * width**-0.5)
