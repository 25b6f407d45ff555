"""Small unsigned numbers packed into bytes, the dense storage of quantized vectors."""

from __future__ import annotations

import functools

import torch
from torch import Tensor

PACKED_BITS = (2, 4, 8)


def packed_bytes(num_codes: int, bits: int) -> int:
    """Return how many bytes so many codes take.

    Raises:
        ValueError: ``bits`` is none of `PACKED_BITS`, or the codes don't fill whole bytes.
    """
    if bits not in PACKED_BITS:
        raise ValueError(f"bits must be one of {PACKED_BITS}, got {bits}")
    if num_codes * bits % 8:
        raise ValueError(f"{num_codes} codes of {bits} bits do not fill whole bytes")
    return num_codes * bits // 8


def pack(codes: Tensor, bits: int) -> Tensor:
    """Pack codes along the last axis.

    A byte holds neighbouring codes, the first in its lowest bits.

    Args:
        codes: Shape ``(..., size)``, uint8, each below ``2 ** bits``.
        bits: One of `PACKED_BITS`.

    Returns:
        Shape ``(..., size * bits / 8)``, uint8.

    Raises:
        ValueError: See `packed_bytes`.
    """
    num_bytes = packed_bytes(codes.shape[-1], bits)
    if bits == 8:
        return codes
    parts = codes.reshape(*codes.shape[:-1], num_bytes, 8 // bits)  # (..., bytes, codes per byte)
    packed = parts[..., 0].clone()
    for index in range(1, 8 // bits):
        packed |= parts[..., index] << (bits * index)
    return packed


def unpack(packed: Tensor, bits: int, centre: float = 0.0) -> Tensor:
    """Return the codes that `pack` packed, less ``centre``, ``(..., size)``, float32.

    Raises:
        ValueError: ``bits`` is none of `PACKED_BITS`.
    """
    if bits not in PACKED_BITS:
        raise ValueError(f"bits must be one of {PACKED_BITS}, got {bits}")
    if bits == 8:
        return packed.to(torch.float32).sub_(centre)
    # One look-up a byte gives all of its codes: fewer passes over memory than shifting.
    codes = _codes_of_bytes(bits).to(packed.device) - centre
    looked_up: Tensor = torch.nn.functional.embedding(packed.to(torch.int32), codes)
    return looked_up.flatten(-2)


@functools.cache
def _codes_of_bytes(bits: int) -> Tensor:
    """Return the codes in each of the 256 bytes, ``(256, 8 / bits)``, float32."""
    shifts = torch.arange(0, 8, bits)
    codes = (torch.arange(256).unsqueeze(1) >> shifts) & ((1 << bits) - 1)
    return codes.to(torch.float32)
