"""Keys of a few tokens, unpacked where the processor's nearest cache holds them."""

from __future__ import annotations

from numba import njit

from memdecay.runtime.precision.kernels.cpu.blocks import (
    Bytes,
    Floats,
    Table,
    dequantize,
    project,
    turn,
)

BLOCK = 32
"""Tokens that are unpacked at a time, a multiple of a tile's."""


@njit(nogil=True, cache=True)
def unpack_keys(
    keys: Bytes,
    start: int,
    stride: int,
    num_tokens: int,
    parts: Table,
    scales: Floats,
    basis: Floats,
    basis_start: int,
    num_lanes: int,
    mean: Floats,
    mean_start: int,
    dim: int,
    cos: Floats,
    sin: Floats,
    angles_start: int,
    half: int,
    numbers: Floats,
    block: Floats,
) -> None:
    """Write keys ``(num_tokens, dim)``, at most a block, with their rotary positions.

    Args:
        keys: The packed keys.
        start: Where the first one begins.
        stride: From one to the next.
        num_tokens: How many, at most `BLOCK`.
        parts: How they are packed.
        scales: The scale of each byte.
        basis: Makes keys out of lanes.
        basis_start: Where the head's ``(num_lanes, dim)`` begin.
        num_lanes: Numbers stored of a key.
        mean: Added to the keys.
        mean_start: Where the head's begins.
        dim: Width of a key.
        cos: Cosines, ``(n, half)``.
        sin: Sines.
        angles_start: Where the first token's begin.
        half: Half of the elements that turn.
        numbers: Room for ``(BLOCK, num_lanes)``.
        block: Gets the keys; room for ``(BLOCK, dim)``.
    """
    dequantize(keys, start, stride, num_tokens, parts, scales, numbers, num_lanes)
    project(numbers, num_tokens, num_lanes, basis, basis_start, mean, mean_start, dim, block)
    turn(block, num_tokens, dim, cos, sin, angles_start, half)
