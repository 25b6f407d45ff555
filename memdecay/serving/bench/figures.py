"""What the rounds say together; pure functions of the runs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from memdecay.serving.bench.row import RoundRow, ServerRun

EARLY_ROUND = 20
WINDOW_ROUNDS = 5
"""A round's time is the median over all agents and this many rounds up to it."""


@dataclass(frozen=True, slots=True)
class RoundTimes:
    """The times of one round over all agents.

    Attributes:
        round: The round, from 1.
        first_token_s: Median seconds to the first text.
        first_token_p95_s: Their 95th percentile.
        total_s: Median seconds to the end.
    """

    round: int
    first_token_s: float
    first_token_p95_s: float
    total_s: float


@dataclass(frozen=True, slots=True)
class ServerFigures:
    """One contestant's figures over the rounds that all contestants have done.

    Attributes:
        name: The contestant.
        num_rounds: The rounds of each agent that count.
        total_s: Seconds from the beginning until every agent had done them.
        requests_per_s: Rounds a second.
        first_token_s: Median seconds to the first text.
        first_token_p95_s: Their 95th percentile.
        round_s: Median seconds of a round.
        round_p95_s: Their 95th percentile.
        num_failed: Failed rounds, of all that were begun.
        answer_tokens: Tokens of all answers; None where the server does not tell.
        cached_share: Share of the prompts' tokens that were not read again; None where the server
            does not tell.
        peak_rss_bytes: See `ServerRun`.
        peak_kv_bytes: See `ServerRun`.
        kv_limit_bytes: See `ServerRun`.
        was_cut: See `ServerRun`.
        by_round: The times of each round.
    """

    name: str
    num_rounds: int
    total_s: float
    requests_per_s: float
    first_token_s: float
    first_token_p95_s: float
    round_s: float
    round_p95_s: float
    num_failed: int
    answer_tokens: int | None
    cached_share: float | None
    peak_rss_bytes: int | None
    peak_kv_bytes: int | None
    kv_limit_bytes: int | None
    was_cut: bool
    by_round: tuple[RoundTimes, ...]


def common_rounds(runs: Sequence[ServerRun]) -> int:
    """Return how many rounds every agent of every contestant has done without a failure."""
    return min((_done_rounds(run) for run in runs), default=0)


def figures_of(run: ServerRun, num_rounds: int) -> ServerFigures:
    """Put a run into numbers.

    Args:
        run: The run.
        num_rounds: The rounds of each agent that count, at least one.

    Raises:
        ValueError: No round of the run counts.
    """
    rows = [row for row in run.rows if row.round <= num_rounds and not row.error]
    if not rows:
        raise ValueError(f"{run.name} has no round up to {num_rounds} that succeeded")
    first = np.array([row.first_token_s for row in rows])
    total = np.array([row.total_s for row in rows])
    wall_s = max(row.end_s for row in rows)
    return ServerFigures(
        name=run.name,
        num_rounds=num_rounds,
        total_s=wall_s,
        requests_per_s=len(rows) / wall_s,
        first_token_s=float(np.median(first)),
        first_token_p95_s=float(np.quantile(first, 0.95)),
        round_s=float(np.median(total)),
        round_p95_s=float(np.quantile(total, 0.95)),
        num_failed=sum(bool(row.error) for row in run.rows),
        answer_tokens=_sum([row.answer_tokens for row in rows]),
        cached_share=_cached_share(rows),
        peak_rss_bytes=run.peak_rss_bytes,
        peak_kv_bytes=run.peak_kv_bytes,
        kv_limit_bytes=run.kv_limit_bytes,
        was_cut=run.was_cut,
        by_round=_by_round(rows),
    )


def late_to_early(run: ServerRun) -> tuple[int, float] | None:
    """Return the last round that all agents did, and its time against the 20th's.

    Times are medians over the agents and `WINDOW_ROUNDS` rounds. None where there are no rounds
    behind the 20th.
    """
    last = _done_rounds(run)
    if last <= EARLY_ROUND:
        return None
    return last, _window_s(run, last, "total_s") / _window_s(run, EARLY_ROUND, "total_s")


def cached_to_uncached(run: ServerRun) -> Mapping[int, float]:
    """Return the time to the first text of a round, against that of the same with nothing cached.

    The first is the median over the agents and `WINDOW_ROUNDS` rounds, under load; the second was
    measured once without any.

    Returns:
        The ratio by round.
    """
    return {
        probe.round: _window_s(run, probe.round, "first_token_s") / probe.first_token_s
        for probe in run.probes
    }


def _done_rounds(run: ServerRun) -> int:
    last: dict[int, int] = {row.agent: 0 for row in run.rows}
    for row in run.rows:
        if not row.error:
            last[row.agent] = max(last[row.agent], row.round)
    return min(last.values(), default=0)


def _window_s(run: ServerRun, last: int, name: str) -> float:
    times = [
        getattr(row, name)
        for row in run.rows
        if last - WINDOW_ROUNDS < row.round <= last and not row.error
    ]
    return float(np.median(times)) if times else math.nan


def _by_round(rows: Sequence[RoundRow]) -> tuple[RoundTimes, ...]:
    times = []
    for number in sorted({row.round for row in rows}):
        own = [row for row in rows if row.round == number]
        first = [row.first_token_s for row in own]
        times.append(
            RoundTimes(
                round=number,
                first_token_s=float(np.median(first)),
                first_token_p95_s=float(np.quantile(first, 0.95)),
                total_s=float(np.median([row.total_s for row in own])),
            )
        )
    return tuple(times)


def _cached_share(rows: Sequence[RoundRow]) -> float | None:
    told = [row for row in rows if row.cached_tokens is not None and row.prompt_tokens]
    if not told:
        return None
    cached = sum(row.cached_tokens or 0 for row in told)
    return cached / sum(row.prompt_tokens or 0 for row in told)


def _sum(values: Sequence[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return sum(known) if len(known) == len(values) else None
