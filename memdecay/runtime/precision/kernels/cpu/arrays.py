"""What kernels get of torch's tensors."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from memdecay.runtime.precision.kernels.cpu.packing import packing_of, scale_table
from memdecay.runtime.precision.kernels.parts import PackedPart

NO_BIAS = np.empty((0, 0), dtype=np.float32)
"""Stands for a bias that adds nothing."""

NO_LOGITS = np.empty((0, 0, 0, 0), dtype=np.float32)
"""Stands for logits that nobody asks for."""


def arrays_of(part: PackedPart) -> tuple[Any, ...]:
    """Return what kernels take for a part, from its keys to the scales."""
    key, value = packing_of(part.tier.key), packing_of(part.tier.value)
    # Made anew for each layer and step: kept, it would be a third more than the basis itself. By
    # numpy: torch takes a quarter more for matrices as small as these.
    mean, directions = part.basis.full()
    basis = np.matmul(key.synthesis, array_of(directions).swapaxes(1, 2))  # (heads, lanes, key_dim)
    cos, sin = part.rotation.cos, part.rotation.sin
    return (
        array_of(part.pool.keys),
        key.parts,
        basis,
        array_of(mean),
        flat(cos),
        flat(sin),
        cos.shape[3],
        cos.stride(0),
        array_of(part.pool.values),
        value.parts,
        value.synthesis,
        scale_table(),
    )


def array_of(tensor: Tensor) -> npt.NDArray[Any]:
    """Return a tensor as a contiguous array."""
    array: npt.NDArray[Any] = tensor.detach().contiguous().numpy()
    return array


def flat(tensor: Tensor) -> npt.NDArray[Any]:
    """Return the memory from a tensor's first element to its last one, without a copy.

    bfloat16, which arrays don't have, comes as the uint16 of its bits.
    """
    steps = zip(tensor.shape, tensor.stride(), strict=True)
    length = 1 + sum((size - 1) * stride for size, stride in steps) if tensor.numel() else 0
    line = tensor.detach().as_strided((length,), (1,))
    if line.dtype == torch.bfloat16:
        line = line.view(torch.int16)
        return line.numpy().view(np.uint16)
    array: npt.NDArray[Any] = line.numpy()
    return array
