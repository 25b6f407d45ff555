"""Softmax over lines of logits, run by run, and what joins the runs."""

from __future__ import annotations

import numpy as np
from numba import njit

from memdecay.runtime.precision.kernels.cpu.blocks import Floats
from memdecay.runtime.precision.kernels.cpu.vectors import (
    WIDTH,
    add,
    at,
    exponential,
    larger,
    largest,
    load,
    put,
    splat,
    store,
    sub,
    total,
)

_HIDDEN = np.float32(-1e30)
"""Where no logit is above this, no token is seen."""


@njit(nogil=True, cache=True)
def add_line(target: Floats, target_first: int, source: Floats, source_first: int, n: int) -> None:
    """Add n numbers to as many others."""
    for i in range(n):
        put(target, target_first + i, at(target, target_first + i) + at(source, source_first + i))


@njit(nogil=True, cache=True)
def keep(
    logits: Floats, num_lines: int, line: int, n: int, kept: Floats, first: int, kept_line: int
) -> None:
    """Copy n logits of each line to lines of another length."""
    for i in range(num_lines):
        for j in range(n):
            put(kept, first + i * kept_line + j, at(logits, i * line + j))


@njit(nogil=True, cache=True)
def largest_of(logits: Floats, first: int, n: int) -> np.float32:
    """Return the largest of n numbers."""
    whole = n - n % WIDTH
    peak = np.float32(-np.inf)
    if whole:
        peaks = load(logits, first)
        for i in range(WIDTH, whole, WIDTH):
            peaks = larger(peaks, load(logits, first + i))
        peak = largest(peaks)
    for i in range(whole, n):
        peak = max(peak, at(logits, first + i))
    return peak


@njit(nogil=True, cache=True)
def exponentiate(logits: Floats, first: int, n: int, peak: np.float32) -> np.float32:
    """Replace n logits by ``e ** (logit - peak)``; return their sum, 0 where all are hidden."""
    whole = n - n % WIDTH
    if peak <= _HIDDEN:
        for i in range(n):
            put(logits, first + i, np.float32(0.0))
        return np.float32(0.0)
    sums, peaks = splat(np.float32(0.0)), splat(peak)
    for i in range(0, whole, WIDTH):
        weights = exponential(sub(load(logits, first + i), peaks))
        store(logits, first + i, weights)
        sums = add(sums, weights)
    mass: np.float32 = total(sums)
    for i in range(whole, n):
        weight = np.exp(at(logits, first + i) - peak)
        put(logits, first + i, weight)
        mass += weight
    return mass


@njit(nogil=True, cache=True)
def soften(
    logits: Floats,
    num_queries: int,
    line: int,
    n: int,
    bias: Floats,
    bias_at: int,
    peaks: Floats,
    masses: Floats,
    target: int,
) -> None:
    """Make weights of n logits of each query.

    Args:
        logits: A line for each query; gets the weights, of which the largest is 1.
        num_queries: How many queries.
        line: Length of a line.
        n: Logits of each query.
        bias: Added to the logits first, unless empty.
        bias_at: Place of the first token in it.
        peaks: Gets the largest logits.
        masses: Gets the sums of the weights.
        target: Place of the first query in both.
    """
    for i in range(num_queries):
        if bias.size:
            add_line(logits, i * line, bias, bias_at, n)
        peak = largest_of(logits, i * line, n)
        put(peaks, target + i, peak)
        put(masses, target + i, exponentiate(logits, i * line, n, peak))


@njit(nogil=True, cache=True)
def join_lines(outputs: Floats, peaks: Floats, masses: Floats, joined: Floats, lse: Floats) -> None:
    """Join what runs of tokens gave.

    Args:
        outputs: See `attend_packed_runs`.
        peaks: The same.
        masses: The same.
        joined: Gets the attention, ``(batch * heads, queries, value_dim)``.
        lse: Gets the logarithm of the sum of exponentiated logits, ``(batch * heads, queries)``.
    """
    num_rows, num_queries, value_dim = joined.shape
    num_lines = peaks.shape[2]
    for row in range(num_rows):
        for i in range(num_queries):
            peak = _HIDDEN
            for line in range(num_lines):
                peak = max(peak, at(peaks, (row * num_lines + line) * num_queries + i))
            target = (row * num_queries + i) * value_dim
            for column in range(value_dim):
                put(joined, target + column, np.float32(0.0))
            mass = np.float32(0.0)
            for line in range(num_lines):
                place = (row * num_lines + line) * num_queries + i
                if at(masses, place) > 0:
                    weight = np.exp(at(peaks, place) - peak)
                    mass += weight * at(masses, place)
                    _add_scaled(joined, target, outputs, place * value_dim, value_dim, weight)
            put(lse, row * num_queries + i, np.log(mass) + peak)
            if mass > 0:
                for column in range(value_dim):
                    put(joined, target + column, at(joined, target + column) / mass)


@njit(nogil=True, cache=True)
def _add_scaled(
    target: Floats,
    target_first: int,
    source: Floats,
    source_first: int,
    n: int,
    factor: np.float32,
) -> None:
    for i in range(n):
        scaled = factor * at(source, source_first + i)
        put(target, target_first + i, at(target, target_first + i) + scaled)
