"""One contestant's figures after some number of tokens seen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from memdecay.runtime.bench.report.statistics import Interval, ratio_interval


@dataclass(slots=True)
class Measured:
    """What was noted of one contestant while it was measured.

    Attributes:
        prefill_s: Seconds of each chunk while the cache was filled.
        prefill_tokens: Tokens of each chunk.
        step_s: Seconds of each decode step, by block.
        parts_s: Seconds of each part over the steps whose parts were timed.
        parts_step_s: Seconds of those steps altogether.
        num_parts_steps: How many of them there were.
        memory: Tokens seen and bytes of keys and values, over time.
        workspace_bytes: On CUDA the most bytes that a decode step took beside what was there.
    """

    prefill_s: list[float]
    prefill_tokens: list[int]
    step_s: list[list[float]]
    parts_s: Mapping[str, float]
    parts_step_s: float
    num_parts_steps: int
    memory: list[tuple[int, int]]
    workspace_bytes: int | None = None

    @classmethod
    def empty(cls) -> Measured:
        """Return a record of nothing."""
        return cls([], [], [], {}, 0.0, 0, [])

    @property
    def step_ms(self) -> np.ndarray[Any, np.dtype[np.float64]]:
        """Milliseconds of all timed decode steps."""
        return 1000 * np.array([step for block in self.step_s for step in block])

    @property
    def block_ms(self) -> list[float]:
        """Median milliseconds of each block's steps."""
        return [1000 * float(np.median(block)) for block in self.step_s]


@dataclass(frozen=True, slots=True)
class SpeedRow:
    """A row of the results.

    Attributes:
        policy: The contestant's name.
        seen: Tokens seen when the decode steps began.
        budget_tokens: Tokens at full precision that the cache may hold; None without a budget.
        tokens_kept: Tokens held at the end.
        num_steps: Timed decode steps.
        decode_ms: Median time of a decode step.
        decode_ms_p99: Its 99th percentile.
        decode_ms_mean: Its mean, which evictions count in.
        prefill_tokens_per_s: Tokens read a second while the cache was filled.
        kv_bytes: Bytes of keys and values at the end.
        peak_kv_bytes: Most of them at one time.
        workspace_bytes: On CUDA the most bytes that a decode step took beside what was there.
        parts_ms: Mean milliseconds of each part of a step, by name of `PARTS`, in steps of their
            own, with timers.
        parts_step_ms: Mean time of those steps.
        decode_ratio: Time of a decode step against the baseline's: geometric mean over blocks of
            the blocks' medians' ratio.
        decode_ratio_low: Lower bound of its 95 % bootstrap interval over blocks.
        decode_ratio_high: Upper bound of it.
        decode_mean_ratio: Mean time of a step against the baseline's.
        p99_to_median: 99th percentile of a step against its median.
        prefill_ratio: Time of prefill against the baseline's.
        peak_ratio: Peak bytes against the baseline's.
        memory: Tokens seen and bytes of keys and values, over time.
    """

    policy: str
    seen: int
    budget_tokens: int | None
    tokens_kept: int
    num_steps: int
    decode_ms: float
    decode_ms_p99: float
    decode_ms_mean: float
    prefill_tokens_per_s: float
    kv_bytes: int
    peak_kv_bytes: int
    workspace_bytes: int | None
    parts_ms: Mapping[str, float]
    parts_step_ms: float
    decode_ratio: float
    decode_ratio_low: float
    decode_ratio_high: float
    decode_mean_ratio: float
    p99_to_median: float
    prefill_ratio: float
    peak_ratio: float
    memory: Sequence[tuple[int, int]]

    def to_dict(self) -> dict[str, Any]:
        """Return the row as JSON takes it."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class CacheState:
    """A contestant's cache at the end.

    Attributes:
        policy: The contestant's name.
        budget_tokens: See `SpeedRow`.
        tokens_kept: See `SpeedRow`.
        kv_bytes: See `SpeedRow`.
        peak_kv_bytes: See `SpeedRow`.
    """

    policy: str
    budget_tokens: int | None
    tokens_kept: int
    kv_bytes: int
    peak_kv_bytes: int


def make_row(
    seen: int, state: CacheState, measured: Measured, base_state: CacheState, base: Measured
) -> SpeedRow:
    """Put a contestant's figures in proportion to the baseline's.

    Args:
        seen: Tokens seen when the decode steps began.
        state: The contestant's cache.
        measured: What was noted of it.
        base_state: The baseline's cache.
        base: What was noted of the baseline, in the same blocks.
    """
    steps, base_steps = measured.step_ms, base.step_ms
    median, p99 = float(np.median(steps)), float(np.quantile(steps, 0.99))
    ratio: Interval = ratio_interval(measured.block_ms, base.block_ms)
    num_parts_steps = max(1, measured.num_parts_steps)
    return SpeedRow(
        policy=state.policy,
        seen=seen,
        budget_tokens=state.budget_tokens,
        tokens_kept=state.tokens_kept,
        num_steps=len(steps),
        decode_ms=median,
        decode_ms_p99=p99,
        decode_ms_mean=float(steps.mean()),
        prefill_tokens_per_s=sum(measured.prefill_tokens) / sum(measured.prefill_s),
        kv_bytes=state.kv_bytes,
        peak_kv_bytes=state.peak_kv_bytes,
        workspace_bytes=measured.workspace_bytes,
        parts_ms={name: 1000 * s / num_parts_steps for name, s in measured.parts_s.items()},
        parts_step_ms=1000 * measured.parts_step_s / num_parts_steps,
        decode_ratio=ratio.value,
        decode_ratio_low=ratio.low,
        decode_ratio_high=ratio.high,
        decode_mean_ratio=float(steps.mean() / base_steps.mean()),
        p99_to_median=p99 / median,
        prefill_ratio=sum(measured.prefill_s) / sum(base.prefill_s),
        peak_ratio=state.peak_kv_bytes / base_state.peak_kv_bytes,
        memory=tuple(measured.memory),
    )
