"""Run very many turns and say what grew."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from dataclasses import dataclass

from memdecay.runtime.bench.soak.memory import Look
from memdecay.runtime.bench.soak.workload import Agent
from memdecay.runtime.invariants import check_invariants

FATE_BYTES = 13
"""What the cache remembers of every token's fate, on purpose; see `Fates`."""


@dataclass(frozen=True, slots=True)
class SoakReport:
    """What a soak found.

    Attributes:
        tokens_seen: Tokens that went through the model.
        tokens_kept: Tokens kept at the end.
        tokens_faded: Those of them below full precision.
        peak_share: Most bytes of buffers at one time, as a share of the budget.
        warm: Memory after the warm-up.
        end: Memory at the end.
        remembered_bytes: What the fates of the tokens since the warm-up take, which is meant to
            grow.
    """

    tokens_seen: int
    tokens_kept: int
    tokens_faded: int
    peak_share: float
    warm: Look
    end: Look
    remembered_bytes: int

    @property
    def tensor_growth(self) -> int:
        """Bytes of tensors that piled up since the warm-up, the fates aside."""
        return self.end.tensors - self.warm.tensors - self.remembered_bytes


def soak(
    agent: Agent,
    num_turns: int,
    warm_up_turns: int,
    after_turn: Callable[[int], None] = lambda _: None,
) -> SoakReport:
    """Run turns, check the cache's books after each, and look at the memory twice.

    Args:
        agent: Runs the turns.
        num_turns: How many.
        warm_up_turns: After how many of them the first look is taken.
        after_turn: Called with the number of each turn, from 1.

    Raises:
        ValueError: The warm-up is not shorter than the run.
        InvariantError: The cache contradicts itself after a turn.
    """
    if not 0 < warm_up_turns < num_turns:
        raise ValueError(f"warm_up_turns must be from 1 to {num_turns - 1}, got {warm_up_turns}")
    cache = agent.cache
    warm, seen_when_warm = Look(0, 0, 0), 0
    try:
        for turn in range(1, num_turns + 1):
            agent.turn()
            check_invariants(cache)
            after_turn(turn)
            if turn == warm_up_turns:
                tracemalloc.start()
                warm, seen_when_warm = Look.now(), cache.tokens_seen
        end = Look.now()
    finally:
        tracemalloc.stop()
    return SoakReport(
        tokens_seen=cache.tokens_seen,
        tokens_kept=cache.tokens_kept,
        tokens_faded=cache.layout.num_faded,
        peak_share=cache.peak_bytes / (cache.config.budget_tokens * cache.bytes_per_token),
        warm=warm,
        end=end,
        remembered_bytes=FATE_BYTES * (cache.tokens_seen - seen_when_warm),
    )
