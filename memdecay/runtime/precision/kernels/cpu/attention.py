"""Attention of a few queries over one part's packed keys and values, run of tokens by run."""

from __future__ import annotations

import numpy as np
from numba import njit

from memdecay.runtime.precision.kernels.cpu.blocks import (
    Bytes,
    Floats,
    Table,
    dequantize,
    dot,
    project,
    turn,
)
from memdecay.runtime.precision.kernels.cpu.softmax import add_line, exponentiate, largest_of
from memdecay.runtime.precision.kernels.cpu.values import add_weighted
from memdecay.runtime.precision.kernels.cpu.vectors import at, put

BLOCK = 32
"""Tokens whose keys are unpacked at a time."""

RUN = 512
"""Tokens whose logits are held at a time, and the smallest piece of work of a thread."""


@njit(nogil=True, cache=True)
def attend_runs(
    first_piece: int,
    last_piece: int,
    query: Floats,
    keys: Bytes,
    key_parts: Table,
    basis: Floats,
    mean: Floats,
    cos: Floats,
    sin: Floats,
    values: Bytes,
    value_parts: Table,
    synthesis: Floats,
    scales: Floats,
    bias: Floats,
    bias_first: int,
    outputs: Floats,
    peaks: Floats,
    masses: Floats,
    first_line: int,
) -> None:
    """Attend to some runs of tokens; a piece of work is one run of one head of one row.

    Args:
        first_piece: Number of the first piece; pieces are numbered by row, run and head.
        last_piece: Number behind the last one.
        query: Scaled, ``(batch, heads, queries, key_dim)``: the queries of each key head.
        keys: ``(batch, heads, n, key bytes)``.
        key_parts: How keys are packed.
        basis: Makes keys out of lanes, ``(heads, lanes, key_dim)``.
        mean: Added to them, ``(heads, key_dim)``.
        cos: ``(batch, n, rotary_dim / 2)``.
        sin: The same.
        values: ``(batch, heads, n, value bytes)``.
        value_parts: How values are packed.
        synthesis: Makes values out of lanes, ``(lanes, value_dim)``.
        scales: The scale of each byte.
        bias: Added to the logits, ``(batch, all tokens)``, or empty.
        bias_first: Place of the part's first token in a row of the bias.
        outputs: Gets sums of values, not normalised, ``(batch, heads, lines, queries, value_dim)``.
        peaks: Gets the largest logits, ``(batch, heads, lines, queries)``.
        masses: Gets the sums of exponentiated logits less the largest one, the same shape.
        first_line: The line of the part's first run.
    """
    _, num_heads, num_queries, key_dim = query.shape
    num_tokens = keys.shape[2]
    num_runs = (num_tokens + RUN - 1) // RUN
    key_lanes = basis.shape[1]
    value_lanes, value_dim = synthesis.shape
    half = cos.shape[2]
    num_lines = outputs.shape[2]
    numbers = np.zeros(BLOCK * key_lanes, dtype=np.float32)
    block = np.zeros(BLOCK * key_dim, dtype=np.float32)
    logits = np.zeros(num_queries * RUN, dtype=np.float32)
    scaled = np.zeros(num_queries * RUN, dtype=np.float32)
    # Queries are projected like keys, a tile at a time.
    sums = np.zeros((num_queries + 3) * value_lanes, dtype=np.float32)
    vectors = np.zeros((num_queries + 3) * value_dim, dtype=np.float32)
    nothing = np.zeros(value_dim, dtype=np.float32)
    for piece in range(first_piece, last_piece):
        head = piece % num_heads
        run = piece // num_heads % num_runs
        row = piece // num_heads // num_runs
        query_first = (row * num_heads + head) * num_queries
        start, stop = run * RUN, min(run * RUN + RUN, num_tokens)
        token_first = (row * num_heads + head) * num_tokens
        for token in range(start, stop, BLOCK):
            count = min(BLOCK, stop - token)
            dequantize(
                keys, (token_first + token) * keys.shape[3], keys.shape[3], count,
                key_parts, scales, numbers, key_lanes,
            )  # fmt: skip
            project(
                numbers, count, key_lanes, basis, head * key_lanes * key_dim, mean,
                head * key_dim, key_dim, block,
            )  # fmt: skip
            turn(block, count, key_dim, cos, sin, (row * num_tokens + token) * half, half)
            dot(
                block, count, key_dim, query, query_first * key_dim, num_queries,
                logits, token - start, RUN,
            )  # fmt: skip
        line_first = ((row * num_heads + head) * num_lines + first_line + run) * num_queries
        for i in range(num_queries):
            if bias.shape[1]:
                bias_at = row * bias.shape[1] + bias_first + start
                add_line(logits, i * RUN, bias, bias_at, stop - start)
            peak = largest_of(logits, i * RUN, stop - start)
            put(peaks, line_first + i, peak)
            put(masses, line_first + i, exponentiate(logits, i * RUN, stop - start, peak))
        sums[:] = 0.0
        add_weighted(
            values, (token_first + start) * values.shape[3], values.shape[3], stop - start,
            value_parts, scales, logits, num_queries, RUN, scaled, sums, value_lanes,
        )  # fmt: skip
        project(sums, num_queries, value_lanes, synthesis, 0, nothing, 0, value_dim, vectors)
        for i in range(num_queries * value_dim):
            put(outputs, line_first * value_dim + i, at(vectors, i))
