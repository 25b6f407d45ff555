"""Which kernel attends to packed tokens on which device."""

from __future__ import annotations

import functools
import importlib.util
from collections.abc import Sequence
from typing import Protocol

import torch
from torch import Tensor

from memdecay.runtime.precision.kernels.parts import Attended, PackedPart


class AttendPacked(Protocol):
    """A kernel; it does what `memdecay.runtime.precision.kernels.reference.attend_packed` does."""

    def __call__(
        self, query: Tensor, parts: Sequence[PackedPart], scale: float, bias: Tensor | None = None
    ) -> Attended:
        """Attend to packed tokens."""


def find_kernel(device: torch.device) -> AttendPacked | None:
    """Return the kernel for tensors on this device; None where there is none.

    Without one, packed tokens are unpacked and attended to like all others. A kernel is compiled
    when it is first called, and its package is imported when it is first asked for.
    """
    if device.type == "cuda" and not _has_tensor_cores(device):
        return None
    return _find_kernel(device.type)


@functools.cache
def _find_kernel(device_type: str) -> AttendPacked | None:
    if device_type == "cpu" and importlib.util.find_spec("numba") is not None:
        from memdecay.runtime.precision.kernels.cpu.attend import attend_packed

        return attend_packed
    if device_type == "cuda" and importlib.util.find_spec("triton") is not None:
        from memdecay.runtime.precision.kernels.cuda.attend import attend_packed

        return attend_packed
    return None


@functools.cache
def _has_tensor_cores(device: torch.device) -> bool:
    """Tell whether the kernel's products can run there: NVIDIA's, from Ampere on."""
    return torch.version.hip is None and torch.cuda.get_device_capability(device) >= (8, 0)
