"""Attention of a few queries over some of a layer's tokens, run of tokens by run."""

from __future__ import annotations

import numpy as np
from numba import njit

from memdecay.runtime.precision.kernels.cpu.blocks import Bytes, Floats, Stored, Table, dot, project
from memdecay.runtime.precision.kernels.cpu.keys import BLOCK, unpack_keys
from memdecay.runtime.precision.kernels.cpu.softmax import keep, soften
from memdecay.runtime.precision.kernels.cpu.values import add_exact, add_weighted
from memdecay.runtime.precision.kernels.cpu.vectors import at, put

RUN = 512
"""Tokens whose logits are held at a time, and the smallest piece of work of a thread."""


@njit(nogil=True, cache=True)
def attend_packed_runs(
    first_piece: int,
    last_piece: int,
    query: Floats,
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
    bias: Floats,
    bias_first: int,
    outputs: Floats,
    peaks: Floats,
    masses: Floats,
    first_line: int,
    kept: Floats,
) -> None:
    """Attend to some runs of packed tokens; a piece of work is one run of one head of one row.

    Args:
        first_piece: Number of the first piece; pieces are numbered by row, run and head.
        last_piece: Number behind the last one.
        query: Scaled, ``(batch, heads, queries, key_dim)``: the queries of each key head.
        keys: ``(batch, heads, n, key bytes)``.
        key_parts: How keys are packed.
        basis: Makes keys out of lanes, ``(heads, lanes, key_dim)``.
        mean: Added to them, ``(heads, 1, key_dim)``.
        cos: ``(n, rotary_dim / 2)`` for each row, flat.
        sin: The same.
        half: ``rotary_dim / 2``.
        angles_row: Elements from one row's cosines to the next one's.
        values: ``(batch, heads, n, value bytes)``.
        value_parts: How values are packed.
        synthesis: Makes values out of lanes, ``(lanes, value_dim)``.
        scales: The scale of each byte.
        bias: Added to the logits, ``(batch, all tokens)``, or empty.
        bias_first: Place of the part's first token in a row of the bias, and among the logits.
        outputs: Gets sums of values, not normalised, ``(batch, heads, lines, queries, value_dim)``.
        peaks: Gets the largest logits, ``(batch, heads, lines, queries)``.
        masses: Gets the sums of exponentiated logits less the largest one, the same shape.
        first_line: The line of the part's first run.
        kept: Gets the logits before the bias, ``(batch, heads, queries, all tokens)``, or empty.
    """
    _, num_heads, num_queries, key_dim = query.shape
    num_tokens = keys.shape[2]
    num_runs = (num_tokens + RUN - 1) // RUN
    key_lanes = basis.shape[1]
    value_lanes, value_dim = synthesis.shape
    numbers = np.zeros(BLOCK * key_lanes, dtype=np.float32)
    block = np.zeros(BLOCK * key_dim, dtype=np.float32)
    logits = np.zeros(num_queries * RUN, dtype=np.float32)
    scaled = np.zeros(num_queries * RUN, dtype=np.float32)
    # Sums are projected like keys, a tile at a time.
    sums = np.zeros((num_queries + 3) * value_lanes, dtype=np.float32)
    vectors = np.zeros((num_queries + 3) * value_dim, dtype=np.float32)
    nothing = np.zeros(value_dim, dtype=np.float32)
    for piece in range(first_piece, last_piece):
        head = piece % num_heads
        run = piece // num_heads % num_runs
        row = piece // num_heads // num_runs
        owner = row * num_heads + head
        start, stop = run * RUN, min(run * RUN + RUN, num_tokens)
        for token in range(start, stop, BLOCK):
            count = min(BLOCK, stop - token)
            unpack_keys(
                keys, (owner * num_tokens + token) * keys.shape[3], keys.shape[3], count,
                key_parts, scales, basis, head * key_lanes * key_dim, key_lanes,
                mean, head * key_dim, key_dim, cos, sin, row * angles_row + token * half, half,
                numbers, block,
            )  # fmt: skip
            dot(
                block, 0, count, key_dim, query, owner * num_queries * key_dim, num_queries,
                logits, token - start, RUN,
            )  # fmt: skip
        if kept.shape[3]:
            keep(
                logits, num_queries, RUN, stop - start,
                kept, owner * num_queries * kept.shape[3] + bias_first + start, kept.shape[3],
            )  # fmt: skip
        line = (owner * outputs.shape[2] + first_line + run) * num_queries
        soften(
            logits, num_queries, RUN, stop - start, bias,
            row * bias.shape[1] + bias_first + start, peaks, masses, line,
        )  # fmt: skip
        sums[:] = 0.0
        add_weighted(
            values, (owner * num_tokens + start) * values.shape[3], values.shape[3], stop - start,
            value_parts, scales, logits, num_queries, RUN, scaled, sums, value_lanes,
        )  # fmt: skip
        project(sums, num_queries, value_lanes, synthesis, 0, nothing, 0, value_dim, vectors)
        for i in range(num_queries * value_dim):
            put(outputs, line * value_dim + i, at(vectors, i))


@njit(nogil=True, cache=True)
def attend_exact_runs(
    first_piece: int,
    last_piece: int,
    query: Floats,
    keys: Stored,
    key_strides: tuple[int, int],
    values: Stored,
    value_strides: tuple[int, int],
    num_tokens: int,
    bias: Floats,
    bias_first: int,
    outputs: Floats,
    peaks: Floats,
    masses: Floats,
    first_line: int,
    kept: Floats,
) -> None:
    """Attend to some runs of tokens at full precision, see `attend_packed_runs`.

    Args:
        first_piece: Number of the first piece.
        last_piece: Number behind the last one.
        query: Scaled, ``(batch, heads, queries, key_dim)``.
        keys: ``(n, key_dim)`` for each row and head, flat; in uint16 the bits of bfloat16.
        key_strides: Elements from a row to the next, and from a head to the next.
        values: ``(n, value_dim)`` for each row and head, like the keys.
        value_strides: Like those of the keys.
        num_tokens: How many tokens there are, n.
        bias: Added to the logits, ``(batch, all tokens)``, or empty.
        bias_first: Place of the first of these tokens in a row of the bias.
        outputs: As there, like all that follow.
        peaks: As there.
        masses: As there.
        first_line: As there.
        kept: As there.
    """
    _, num_heads, num_queries, key_dim = query.shape
    value_dim = outputs.shape[4]
    num_runs = (num_tokens + RUN - 1) // RUN
    logits = np.zeros(num_queries * RUN, dtype=np.float32)
    for piece in range(first_piece, last_piece):
        head = piece % num_heads
        run = piece // num_heads % num_runs
        row = piece // num_heads // num_runs
        owner = row * num_heads + head
        start, stop = run * RUN, min(run * RUN + RUN, num_tokens)
        dot(
            keys, row * key_strides[0] + head * key_strides[1] + start * key_dim, stop - start,
            key_dim, query, owner * num_queries * key_dim, num_queries, logits, 0, RUN,
        )  # fmt: skip
        if kept.shape[3]:
            keep(
                logits, num_queries, RUN, stop - start,
                kept, owner * num_queries * kept.shape[3] + bias_first + start, kept.shape[3],
            )  # fmt: skip
        line = (owner * outputs.shape[2] + first_line + run) * num_queries
        soften(
            logits, num_queries, RUN, stop - start, bias,
            row * bias.shape[1] + bias_first + start, peaks, masses, line,
        )  # fmt: skip
        add_exact(
            values, row * value_strides[0] + head * value_strides[1] + start * value_dim,
            stop - start, value_dim, logits, num_queries, RUN, outputs, line * value_dim,
        )  # fmt: skip
