"""What kernels do with a block of some tokens of one head, small enough for the nearest cache.

Arrays are flat to these functions: ``start`` and ``first`` are the index of the first element that
counts, and lengths come as arguments. A block's lines are padded to a multiple of `TILE` tokens.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from numba import njit

from memdecay.runtime.precision.kernels.cpu.packing import (
    BITS,
    CODE_OFFSET,
    FIRST_LANE,
    NUM_BYTES,
    SCALE_OFFSET,
)
from memdecay.runtime.precision.kernels.cpu.vectors import (
    WIDTH,
    at,
    bits_of,
    fma,
    load,
    load_bytes,
    mul,
    put,
    splat,
    store,
    sub,
    total,
)

Floats = npt.NDArray[np.float32]
Stored = npt.NDArray[np.float32] | npt.NDArray[np.uint16]
Bytes = npt.NDArray[np.uint8]
Table = npt.NDArray[np.int64]

TILE = 4
"""Tokens that are projected at a time."""


@njit(nogil=True, cache=True)
def dequantize(
    stored: Bytes,
    start: int,
    stride: int,
    num_tokens: int,
    parts: Table,
    scales: Floats,
    numbers: Floats,
    num_lanes: int,
) -> None:
    """Write the numbers of packed vectors, ``(num_tokens, num_lanes)``, in the order of lanes."""
    for part in range(parts.shape[0]):
        bits = parts[part, BITS]
        num_bytes = parts[part, NUM_BYTES]
        num_whole = num_bytes - num_bytes % WIDTH
        mask = (1 << bits) - 1
        centre = np.float32(0.5 * mask)
        for token in range(num_tokens):
            source = start + token * stride
            scale = at(scales, at(stored, source + parts[part, SCALE_OFFSET]))
            source += parts[part, CODE_OFFSET]
            target = token * num_lanes + parts[part, FIRST_LANE]
            factor, offset = splat(scale), splat(centre * scale)
            for shift in range(0, 8, bits):
                for byte in range(0, num_whole, WIDTH):
                    codes = bits_of(load_bytes(stored, source + byte), shift, mask)
                    store(numbers, target + byte, sub(mul(codes, factor), offset))
                for byte in range(num_whole, num_bytes):
                    code = np.float32((np.int64(at(stored, source + byte)) >> shift) & mask)
                    put(numbers, target + byte, (code - centre) * scale)
                target += num_bytes


@njit(nogil=True, cache=True)
def project(
    numbers: Floats,
    num_tokens: int,
    num_lanes: int,
    basis: Floats,
    basis_start: int,
    mean: Floats,
    mean_start: int,
    dim: int,
    vectors: Floats,
) -> None:
    """Write ``numbers @ basis + mean``, ``(num_tokens, dim)``; a tile's tokens at a time."""
    num_pairs = dim - dim % (2 * WIDTH)
    for column in range(0, num_pairs, 2 * WIDTH):
        mean_0 = load(mean, mean_start + column)
        mean_1 = load(mean, mean_start + column + WIDTH)
        for token in range(0, num_tokens, TILE):
            a0, a1, b0, b1, c0, c1, d0, d1 = (
                mean_0, mean_1, mean_0, mean_1, mean_0, mean_1, mean_0, mean_1,
            )  # fmt: skip
            source = token * num_lanes
            place = basis_start + column
            for lane in range(num_lanes):
                low, high = load(basis, place), load(basis, place + WIDTH)
                place += dim
                number = splat(at(numbers, source + lane))
                a0, a1 = fma(number, low, a0), fma(number, high, a1)
                number = splat(at(numbers, source + num_lanes + lane))
                b0, b1 = fma(number, low, b0), fma(number, high, b1)
                number = splat(at(numbers, source + 2 * num_lanes + lane))
                c0, c1 = fma(number, low, c0), fma(number, high, c1)
                number = splat(at(numbers, source + 3 * num_lanes + lane))
                d0, d1 = fma(number, low, d0), fma(number, high, d1)
            target = token * dim + column
            store(vectors, target, a0)
            store(vectors, target + WIDTH, a1)
            store(vectors, target + dim, b0)
            store(vectors, target + dim + WIDTH, b1)
            store(vectors, target + 2 * dim, c0)
            store(vectors, target + 2 * dim + WIDTH, c1)
            store(vectors, target + 3 * dim, d0)
            store(vectors, target + 3 * dim + WIDTH, d1)
    for column in range(num_pairs, dim, WIDTH):
        first = load(mean, mean_start + column)
        for token in range(num_tokens):
            sums = first
            for lane in range(num_lanes):
                number = splat(at(numbers, token * num_lanes + lane))
                sums = fma(number, load(basis, basis_start + lane * dim + column), sums)
            store(vectors, token * dim + column, sums)


@njit(nogil=True, cache=True)
def turn(
    vectors: Floats, num_tokens: int, dim: int, cos: Floats, sin: Floats, start: int, half: int
) -> None:
    """Turn vectors ``(num_tokens, dim)`` by their rotary positions, in place."""
    num_whole = half - half % WIDTH
    for token in range(num_tokens):
        place = token * dim
        angle = start + token * half
        for i in range(0, num_whole, WIDTH):
            first, second = load(vectors, place + i), load(vectors, place + half + i)
            c, s = load(cos, angle + i), load(sin, angle + i)
            store(vectors, place + i, sub(mul(first, c), mul(second, s)))
            store(vectors, place + half + i, fma(first, s, mul(second, c)))
        for i in range(num_whole, half):
            x, y = at(vectors, place + i), at(vectors, place + half + i)
            put(vectors, place + i, x * at(cos, angle + i) - y * at(sin, angle + i))
            put(vectors, place + half + i, y * at(cos, angle + i) + x * at(sin, angle + i))


@njit(nogil=True, cache=True)
def dot(
    vectors: Stored,
    start: int,
    num_tokens: int,
    dim: int,
    query: Floats,
    query_start: int,
    num_queries: int,
    logits: Floats,
    first: int,
    stride: int,
) -> None:
    """Write each query's products with vectors ``(num_tokens, dim)``, a line for each query."""
    for token in range(num_tokens):
        source = start + token * dim
        for i in range(num_queries):
            sums = splat(np.float32(0.0))
            place = query_start + i * dim
            for column in range(0, dim, WIDTH):
                sums = fma(load(vectors, source + column), load(query, place + column), sums)
            put(logits, i * stride + first + token, total(sums))
