"""Which kernel attends to packed tokens on which device."""

from __future__ import annotations

import functools
import importlib.util
import logging
from collections.abc import Sequence
from typing import Protocol

import torch
from torch import Tensor

from memdecay.runtime.precision.kernels import reference
from memdecay.runtime.precision.kernels.parts import Attended, ExactPart, PackedPart

logger = logging.getLogger(__name__)


class AttendPacked(Protocol):
    """A kernel; it does what `memdecay.runtime.precision.kernels.reference.attend_packed` does."""

    def __call__(
        self, query: Tensor, parts: Sequence[PackedPart], scale: float, bias: Tensor | None = None
    ) -> Attended:
        """Attend to packed tokens."""


def attend_mixed(
    query: Tensor,
    parts: Sequence[PackedPart],
    exact: ExactPart | None,
    scale: float,
    bias: Tensor | None = None,
    logits: Tensor | None = None,
) -> Attended:
    """Attend to packed tokens and to those at full precision behind them.

    Args:
        query: Turned by its position, ``(batch, num_attention_heads, q, head_dim)``, float, on a
            device that has a kernel.
        parts: The packed tokens, at least one part.
        exact: The tokens at full precision, if any.
        scale: Factor on the logits.
        bias: Added to the logits, ``(batch, n)`` for all n tokens; see `AttendPacked`.
        logits: Gets the scaled logits without the bias, ``(batch, num_attention_heads, q, n)``,
            contiguous, float32, where `gives_logits`; None asks for none.
    """
    kernel = find_kernel(query.device)
    assert kernel is not None, "tokens stay packed where there is a kernel for them"
    if query.device.type == "cpu":
        from memdecay.runtime.precision.kernels.cpu.attend import attend_packed

        return attend_packed(query, parts, scale, bias, exact, logits)
    assert logits is None, "asked for where a kernel gives them"
    num_packed = sum(part.num_tokens for part in parts)
    packed_bias = exact_bias = None
    if bias is not None:
        packed_bias, exact_bias = bias[:, :num_packed], bias[:, num_packed:]
    attended = kernel(query, parts, scale, packed_bias)
    if exact is None:
        return attended
    return attended.join(reference.attend_exact(query, exact.keys, exact.values, scale, exact_bias))


def unpack_into(keys: Tensor | None, values: Tensor | None, parts: Sequence[PackedPart]) -> None:
    """Unpack tokens into the front of tensors, in the order of the parts.

    Args:
        keys: Gets the keys, ``(batch, heads, all tokens, key_dim)``; None leaves them packed.
        values: Gets the values, ``(batch, heads, all tokens, value_dim)``; or None.
        parts: The packed tokens.
    """
    targets = [states for states in (keys, values) if states is not None]
    if all(map(_is_plain, targets)) and find_kernel(torch.device("cpu")):
        from memdecay.runtime.precision.kernels.cpu.unpack import unpack_into

        return unpack_into(keys, values, parts)
    return reference.unpack_into(keys, values, parts)


def _is_plain(states: Tensor) -> bool:
    """Tell whether the CPU's kernel can write there."""
    is_float = states.dtype == torch.float32 and states.device.type == "cpu"
    return is_float and states.is_contiguous()


def gives_logits(device: torch.device) -> bool:
    """Tell whether the device's kernel can hand out what it takes the softmax of."""
    return device.type == "cpu" and find_kernel(device) is not None


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
        from memdecay.runtime.precision.kernels.cpu import attend as on_cpu

        return on_cpu.attend_packed
    if device_type == "cuda" and importlib.util.find_spec("triton") is not None:
        from memdecay.runtime.precision.kernels.cuda import attend as on_cuda

        return on_cuda.attend_packed
    return None


@functools.cache
def _has_tensor_cores(device: torch.device) -> bool:
    """Tell whether the kernel's products can run there: NVIDIA's, from Ampere on."""
    return torch.version.hip is None and torch.cuda.get_device_capability(device) >= (8, 0)
