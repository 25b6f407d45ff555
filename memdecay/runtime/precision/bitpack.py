"""Small unsigned numbers packed into bytes, the dense storage of quantized vectors."""

from __future__ import annotations

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

    The first code of a byte takes its lowest bits. A byte holds codes that stand
    ``size / codes per byte`` apart, so that unpacking is a few whole-tensor shifts.

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
    parts = codes.unflatten(-1, (8 // bits, num_bytes))  # (..., codes per byte, bytes)
    packed = parts[..., 0, :].clone()
    for index in range(1, 8 // bits):
        packed |= parts[..., index, :] << (bits * index)
    return packed


def unpack(packed: Tensor, bits: int) -> Tensor:
    """Return the codes that `pack` packed, ``(..., size)``, uint8.

    Raises:
        ValueError: ``bits`` is none of `PACKED_BITS`.
    """
    if bits not in PACKED_BITS:
        raise ValueError(f"bits must be one of {PACKED_BITS}, got {bits}")
    if bits == 8:
        return packed
    mask = (1 << bits) - 1
    return torch.cat([(packed >> (bits * index)) & mask for index in range(8 // bits)], dim=-1)
