"""Weighted sums of values. Packed ones are not unpacked: their codes are added by weight."""

from __future__ import annotations

import numpy as np
from numba import njit

from memdecay.runtime.precision.kernels.cpu.blocks import Bytes, Floats, Stored, Table
from memdecay.runtime.precision.kernels.cpu.packing import (
    BITS,
    CODE_OFFSET,
    FIRST_LANE,
    NUM_BYTES,
    SCALE_OFFSET,
)
from memdecay.runtime.precision.kernels.cpu.vectors import (
    WIDTH,
    add,
    at,
    bits_of,
    fma,
    load,
    load_bytes,
    put,
    splat,
    store,
    sub,
)


@njit(nogil=True, cache=True)
def add_weighted(
    stored: Bytes,
    start: int,
    stride: int,
    num_tokens: int,
    parts: Table,
    scales: Floats,
    weights: Floats,
    num_queries: int,
    line: int,
    scaled: Floats,
    sums: Floats,
    num_lanes: int,
) -> None:
    """Add packed vectors by weight.

    Args:
        stored: The packed vectors.
        start: Where the first one begins.
        stride: From one to the next.
        num_tokens: How many there are.
        parts: How they are packed.
        scales: The scale of each byte.
        weights: A line of weights for each query.
        num_queries: How many queries.
        line: Length of a line.
        scaled: Room for as many lines.
        sums: ``(num_queries, num_lanes)``: what is added to, in the order of lanes.
        num_lanes: Numbers stored of a vector.
    """
    for part in range(parts.shape[0]):
        bits = parts[part, BITS]
        scale_at = start + parts[part, SCALE_OFFSET]
        for token in range(num_tokens):
            scale = at(scales, at(stored, scale_at + token * stride))
            for i in range(num_queries):
                put(scaled, i * line + token, at(weights, i * line + token) * scale)
        lane = parts[part, FIRST_LANE]
        num_bytes = parts[part, NUM_BYTES]
        codes_at = start + parts[part, CODE_OFFSET]
        num_threes = num_queries - num_queries % 3
        for i in range(0, num_threes, 3):
            _add_three(
                stored, codes_at, stride, num_tokens, num_bytes, bits,
                scaled, i * line, line, sums, i * num_lanes + lane, num_lanes,
            )  # fmt: skip
        for i in range(num_threes, num_queries):
            _add_one(
                stored, codes_at, stride, num_tokens, num_bytes, bits,
                scaled, i * line, sums, i * num_lanes + lane,
            )  # fmt: skip


@njit(nogil=True, cache=True)
def _add_three(
    stored: Bytes,
    start: int,
    stride: int,
    num_tokens: int,
    num_bytes: int,
    bits: int,
    weights: Floats,
    first: int,
    line: int,
    sums: Floats,
    target: int,
    num_lanes: int,
) -> None:
    """Add the vectors of one part by the weights of three queries: each code is read once."""
    num_whole = num_bytes - num_bytes % WIDTH
    mask = (1 << bits) - 1
    centre = splat(np.float32(0.5 * mask))
    a, b, c = first, first + line, first + 2 * line
    for shift in range(0, 8, bits):
        lanes = target + shift // bits * num_bytes
        for byte in range(0, num_whole, WIDTH):
            sum_a = load(sums, lanes + byte)
            sum_b = load(sums, lanes + num_lanes + byte)
            sum_c = load(sums, lanes + 2 * num_lanes + byte)
            for token in range(num_tokens):
                codes = bits_of(load_bytes(stored, start + token * stride + byte), shift, mask)
                codes = sub(codes, centre)
                sum_a = fma(splat(at(weights, a + token)), codes, sum_a)
                sum_b = fma(splat(at(weights, b + token)), codes, sum_b)
                sum_c = fma(splat(at(weights, c + token)), codes, sum_c)
            store(sums, lanes + byte, sum_a)
            store(sums, lanes + num_lanes + byte, sum_b)
            store(sums, lanes + 2 * num_lanes + byte, sum_c)
    if num_whole < num_bytes:
        for i in range(3):
            _add_rest(
                stored, start, stride, num_tokens, num_whole, num_bytes, bits,
                weights, first + i * line, sums, target + i * num_lanes,
            )  # fmt: skip


@njit(nogil=True, cache=True)
def _add_one(
    stored: Bytes,
    start: int,
    stride: int,
    num_tokens: int,
    num_bytes: int,
    bits: int,
    weights: Floats,
    first: int,
    sums: Floats,
    target: int,
) -> None:
    """Add the vectors of one part by the weights of one query."""
    num_whole = num_bytes - num_bytes % WIDTH
    mask = (1 << bits) - 1
    centre = splat(np.float32(0.5 * mask))
    for shift in range(0, 8, bits):
        lanes = target + shift // bits * num_bytes
        for byte in range(0, num_whole, WIDTH):
            sum_a = load(sums, lanes + byte)
            for token in range(num_tokens):
                codes = bits_of(load_bytes(stored, start + token * stride + byte), shift, mask)
                sum_a = fma(splat(at(weights, first + token)), sub(codes, centre), sum_a)
            store(sums, lanes + byte, sum_a)
    _add_rest(
        stored, start, stride, num_tokens, num_whole, num_bytes, bits, weights, first, sums, target
    )


@njit(nogil=True, cache=True)
def _add_rest(
    stored: Bytes,
    start: int,
    stride: int,
    num_tokens: int,
    first_byte: int,
    num_bytes: int,
    bits: int,
    weights: Floats,
    first: int,
    sums: Floats,
    target: int,
) -> None:
    """Add what bytes hold that fill no vector."""
    mask = (1 << bits) - 1
    centre = np.float32(0.5 * mask)
    for shift in range(0, 8, bits):
        lanes = target + shift // bits * num_bytes
        for byte in range(first_byte, num_bytes):
            whole = at(sums, lanes + byte)
            for token in range(num_tokens):
                code = (np.int64(at(stored, start + token * stride + byte)) >> shift) & mask
                whole += at(weights, first + token) * (np.float32(code) - centre)
            put(sums, lanes + byte, whole)


@njit(nogil=True, cache=True)
def add_exact(
    values: Stored,
    start: int,
    num_tokens: int,
    dim: int,
    weights: Floats,
    num_queries: int,
    line: int,
    outputs: Floats,
    target: int,
) -> None:
    """Write the weighted sum of values ``(num_tokens, dim)`` for each query.

    Args:
        values: Values, or the bits of bfloat16.
        start: Where the first one begins.
        num_tokens: How many.
        dim: Width of a value.
        weights: A line of weights for each query.
        num_queries: How many queries.
        line: Length of a line.
        outputs: Gets ``(num_queries, dim)``.
        target: Where the first query's begin.
    """
    num_pairs = num_tokens - num_tokens % 2
    for i in range(num_queries):
        for column in range(0, dim, WIDTH):
            even = odd = splat(np.float32(0.0))
            source = start + column
            for token in range(0, num_pairs, 2):
                even = fma(splat(at(weights, i * line + token)), load(values, source), even)
                source += dim
                odd = fma(splat(at(weights, i * line + token + 1)), load(values, source), odd)
                source += dim
            if num_pairs < num_tokens:
                even = fma(splat(at(weights, i * line + num_pairs)), load(values, source), even)
            store(outputs, target + i * dim + column, add(even, odd))
