"""Many turns: nothing grows, nothing drifts apart, and twice gives the same."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
import torch

from memdecay.runtime.bench.soak.run import SoakReport, soak
from memdecay.runtime.bench.soak.workload import Agent, TurnConfig, state_of
from memdecay.runtime.cache import DecayCache
from memdecay.runtime.config import FadingConfig
from memdecay.runtime.invariants import InvariantError, check_invariants

from .reference import make_cache, tiny_llama

# `benchmarks/soak.py` runs a thousand.
NUM_TURNS = 90
WARM_UP_TURNS = 45
BUDGET_TOKENS = 96
# What the allocator and the interpreter may take for themselves between two looks.
MOST_PROCESS_GROWTH_BYTES = 24 * 2**20
MOST_PYTHON_GROWTH_BYTES = 2**20


def soaked_cache() -> DecayCache:
    return make_cache(
        tiny_llama(),
        BUDGET_TOKENS,
        policy="memdecay",
        num_recent=8,
        fading=FadingConfig(steps=(4, 2), num_exact=6, room_share=0.3),
    )


def new_agent() -> Agent:
    return Agent(tiny_llama(), soaked_cache(), TurnConfig(), seed=1)


@dataclass(frozen=True)
class Soaked:
    agent: Agent
    report: SoakReport


@pytest.fixture(scope="module")
def soaked() -> Soaked:
    agent = new_agent()
    return Soaked(agent, soak(agent, NUM_TURNS, WARM_UP_TURNS))


def test_many_turns_fade_evict_and_stay_within_the_budget(soaked: Soaked) -> None:
    assert soaked.report.tokens_seen > 5 * BUDGET_TOKENS
    assert soaked.report.tokens_faded > 0
    assert sum(soaked.agent.cache.evicted_per_region().values()) > 0
    assert soaked.report.peak_share <= 1


def test_no_memory_piles_up(soaked: Soaked) -> None:
    warm, end = soaked.report.warm, soaked.report.end
    # The cache's own tensors are now a little more and now a little less than its budget.
    held = BUDGET_TOKENS * soaked.agent.cache.bytes_per_token
    assert soaked.report.tensor_growth <= held
    assert end.python - warm.python <= MOST_PYTHON_GROWTH_BYTES
    assert end.process - warm.process <= MOST_PROCESS_GROWTH_BYTES


def test_the_same_turns_end_in_the_same_cache(soaked: Soaked) -> None:
    second = new_agent()
    for _ in range(NUM_TURNS):
        second.turn()
    assert second.cache.layout == soaked.agent.cache.layout
    torch.testing.assert_close(
        state_of(second), state_of(soaked.agent), rtol=0, atol=0, equal_nan=True
    )


def test_a_soak_needs_turns_behind_its_warm_up() -> None:
    with pytest.raises(ValueError, match="warm_up_turns must be from 1 to 2, got 3"):
        soak(new_agent(), 3, 3)


def short_cache() -> DecayCache:
    agent = new_agent()
    for _ in range(16):
        agent.turn()
    check_invariants(agent.cache)
    return agent.cache


def test_an_empty_cache_is_sound() -> None:
    check_invariants(soaked_cache())


def test_a_position_kept_twice_is_found() -> None:
    cache = short_cache()
    cache.slots.positions[0, 0] = cache.slots.positions[0, 1]
    with pytest.raises(InvariantError, match="kept twice"):
        check_invariants(cache)


def test_a_layer_that_lost_a_token_is_found() -> None:
    cache = short_cache()
    cache.layers[1].crop(-1)
    with pytest.raises(InvariantError, match="tokens kept and layer 1's differ"):
        check_invariants(cache)


def test_bytes_that_are_not_accounted_for_are_found() -> None:
    cache = short_cache()
    cache.layers[2].keep(torch.arange(cache.layers[2].num_buffered)[None])
    cache.layers[2].capacity += 64
    cache.layers[2].keep(torch.arange(cache.layers[2].num_buffered)[None])
    with pytest.raises(InvariantError, match="bytes accounted for and allocated differ"):
        check_invariants(cache)
