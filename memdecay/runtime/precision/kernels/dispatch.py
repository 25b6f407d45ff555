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

    Without one, packed tokens are unpacked and attended to like all others. Nothing is compiled
    before the kernel is first called.
    """
    return _find_kernel(device.type)


@functools.cache
def _find_kernel(device_type: str) -> AttendPacked | None:
    return None


def _has(package: str) -> bool:
    return importlib.util.find_spec(package) is not None
