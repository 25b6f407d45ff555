"""Packed keys and values, unpacked all at once for what needs them so."""

from __future__ import annotations

import numpy as np
from numba import njit

from memdecay.runtime.precision.kernels.cpu.blocks import (
    Bytes,
    Floats,
    Table,
    dequantize,
    project,
)
from memdecay.runtime.precision.kernels.cpu.keys import BLOCK, unpack_keys
from memdecay.runtime.precision.kernels.cpu.vectors import WIDTH, load, store


@njit(nogil=True, cache=True)
def unpack_blocks(
    first_piece: int,
    last_piece: int,
    keys: Bytes,
    key_parts: Table,
    basis: Floats,
    mean: Floats,
    cos: Floats,
    sin: Floats,
    half: int,
    angles_row: int,
    values: Bytes,
    value_parts: Table,
    synthesis: Floats,
    scales: Floats,
    unpacked_keys: Floats,
    unpacked_values: Floats,
    num_all: int,
    first_token: int,
) -> None:
    """Unpack some blocks of tokens; a piece of work is a block of one head of one row.

    Args:
        first_piece: Number of the first piece; pieces are numbered by row, block and head.
        last_piece: Number behind the last one.
        keys: As in `attend_packed_runs`, like all up to the scales.
        key_parts: As there.
        basis: As there.
        mean: As there.
        cos: As there.
        sin: As there.
        half: As there.
        angles_row: As there.
        values: As there.
        value_parts: As there.
        synthesis: As there.
        scales: As there.
        unpacked_keys: Gets the keys, ``(batch, heads, all tokens, key_dim)``; empty if they
            shall stay packed.
        unpacked_values: Gets the values, ``(batch, heads, all tokens, value_dim)``; or empty.
        num_all: How many tokens all are.
        first_token: Place of the part's first token among all.
    """
    _, num_heads, num_tokens, _ = keys.shape
    num_blocks = (num_tokens + BLOCK - 1) // BLOCK
    _, key_lanes, key_dim = basis.shape
    value_lanes, value_dim = synthesis.shape
    numbers = np.zeros(BLOCK * max(key_lanes, value_lanes), dtype=np.float32)
    block = np.zeros(BLOCK * max(key_dim, value_dim), dtype=np.float32)
    nothing = np.zeros(value_dim, dtype=np.float32)
    for piece in range(first_piece, last_piece):
        head = piece % num_heads
        token = piece // num_heads % num_blocks * BLOCK
        row = piece // num_heads // num_blocks
        owner = row * num_heads + head
        source = owner * num_tokens + token
        target = owner * num_all + first_token + token
        count = min(BLOCK, num_tokens - token)
        if unpacked_keys.size:
            unpack_keys(
                keys, source * keys.shape[3], keys.shape[3], count, key_parts, scales,
                basis, head * key_lanes * key_dim, key_lanes, mean, head * key_dim, key_dim,
                cos, sin, row * angles_row + token * half, half, numbers, block,
            )  # fmt: skip
            _copy(block, unpacked_keys, target * key_dim, count * key_dim)
        if unpacked_values.size:
            dequantize(
                values, source * values.shape[3], values.shape[3], count, value_parts, scales,
                numbers, value_lanes,
            )  # fmt: skip
            project(numbers, count, value_lanes, synthesis, 0, nothing, 0, value_dim, block)
            _copy(block, unpacked_values, target * value_dim, count * value_dim)


@njit(nogil=True, cache=True)
def _copy(block: Floats, target: Floats, first: int, n: int) -> None:
    """Copy a multiple of eight floats: a block's own last tile may be longer than its tokens."""
    for i in range(0, n, WIDTH):
        store(target, first + i, load(block, i))
