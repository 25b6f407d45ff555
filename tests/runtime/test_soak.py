"""A thousand turns: nothing grows, nothing drifts apart, and twice gives the same."""

from __future__ import annotations

import gc
import random
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
from torch import Tensor

from memdecay.runtime.attach import attach
from memdecay.runtime.cache import DecayCache
from memdecay.runtime.config import FadingConfig
from memdecay.runtime.precision.layout import FULL_BITS

from .reference import make_cache, random_ids, tiny_llama

NUM_TURNS = 1000
BUDGET_TOKENS = 96
NUM_EXACT = 6
NUM_RECENT = 8
NUM_SINKS = 2
MOST_AT_ONCE = 32
WARM_UP_TURNS = 200
# What the allocator and the interpreter may take for themselves between two looks.
MOST_PROCESS_GROWTH_BYTES = 24 * 2**20
MOST_TENSOR_GROWTH = 1.1
FATE_BYTES = 13
STATUS = Path("/proc/self/statm")
PAGE_BYTES = 4096


def soaked_cache() -> DecayCache:
    return make_cache(
        tiny_llama(),
        BUDGET_TOKENS,
        policy="memdecay",
        num_recent=NUM_RECENT,
        num_sinks=NUM_SINKS,
        fading=FadingConfig(steps=(4, 2), num_exact=NUM_EXACT, room_share=0.3),
    )


class Agent:
    """Turns of random length: a message, now and then a tool's dump, an answer, a crop."""

    def __init__(self, seed: int) -> None:
        self.cache = soaked_cache()
        self.last_logits = torch.empty(0)
        self._random = random.Random(seed)
        self._ids = random_ids(1, 4096, seed=seed)
        self._num_run = 0

    def turns(self, num_turns: int, after_turn: Callable[[int], None] = lambda _: None) -> None:
        with torch.no_grad(), attach(tiny_llama(), self.cache):
            for turn in range(num_turns):
                self._turn()
                after_turn(turn)

    def _turn(self) -> None:
        self._run(self._random.randint(1, 12))
        if self._random.random() < 0.1:
            for _ in range(self._random.randint(1, 3)):
                self._run(self._random.randint(16, MOST_AT_ONCE))
        for _ in range(self._random.randint(0, 2)):
            self._run(1)
        if self._random.random() < 0.2:
            self._crop(self._random.randint(1, 3))

    def _run(self, num_tokens: int) -> None:
        # Positions go on for ever in a session; the tiny model's rotary ones take any number.
        start = self._num_run % (self._ids.shape[1] - MOST_AT_ONCE)
        self._num_run += num_tokens
        ids = self._ids[:, start : start + num_tokens].clone()
        out = tiny_llama()(input_ids=ids, cache=self.cache, use_cache=True, logits_to_keep=1)
        self.last_logits = out.logits.clone()
        self._tag(num_tokens)

    def _tag(self, num_tokens: int) -> None:
        """Give each token an importance and a region of its own, as the classifier would."""
        draws = [self._random.random() for _ in range(num_tokens)]
        importance = torch.tensor([[10.0 ** (3 * draw - 1) for draw in draws]])
        regions = torch.tensor([[int(5 * draw) % 5 for draw in draws]])
        probs = torch.nn.functional.one_hot(regions, 5).float()
        start = self.cache.tokens_seen - num_tokens
        self.cache.set_tags(start, importance, probs)

    def _crop(self, num_tokens: int) -> None:
        seen = self.cache.tokens_seen
        # One more than is taken back, so that the newest that stays is there too.
        newest = self.cache.slots.positions[0, -num_tokens - 1 :]
        expected = torch.arange(seen - num_tokens - 1, seen)
        if newest.shape == expected.shape and torch.equal(newest, expected):
            self.cache.crop(-num_tokens)


def check(cache: DecayCache) -> None:
    """Check that what the cache knows of its tokens is what its buffers hold."""
    slots, layout = cache.slots, cache.layout
    kept = cache.tokens_kept
    assert slots.num_kept == kept == layout.num_tokens
    assert slots.num_seen == cache.tokens_seen
    assert sum(cache.kept_per_region().values()) == kept
    assert sum(cache.evicted_per_region().values()) == cache.tokens_seen - kept
    positions = slots.positions[0]
    assert len(positions.unique()) == kept
    assert int(positions.max()) == cache.tokens_seen - 1
    assert torch.isin(torch.arange(NUM_SINKS), positions).all()
    for layer in cache.layers:
        assert layer.layout == layout
        assert layer.keys.shape[2] == layer.num_buffered == layout.counts[-1]
        assert layer.num_kept == kept
        assert layer.num_seen == cache.tokens_seen
    assert layout.bits[-1] == FULL_BITS
    assert cache.allocated_bytes == sum(layer.allocated_bytes for layer in cache.layers)
    assert cache.peak_bytes <= BUDGET_TOKENS * cache.bytes_per_token


def tensor_bytes() -> int:
    """Return the bytes of all tensors that are alive, storages that several share once."""
    gc.collect()
    storages = {}
    for thing in gc.get_objects():
        if type(thing) in (Tensor, torch.nn.Parameter):
            storage = thing.untyped_storage()
            storages[storage.data_ptr()] = storage.nbytes()
    return sum(storages.values())


def process_bytes() -> int:
    """Return the process's resident memory; 0 where the system doesn't tell."""
    if not STATUS.exists():
        return 0
    return int(STATUS.read_text().split()[1]) * PAGE_BYTES


@dataclass(frozen=True)
class Look:
    """What was alive at one moment, in bytes."""

    tensors: int
    process: int


@dataclass(frozen=True)
class Soaked:
    """The end of the first run, and the looks after the warm-up and at the end."""

    agent: Agent
    warm: Look
    end: Look


@pytest.fixture(scope="module")
def soaked() -> Soaked:
    """Run all turns and check the books on the way."""
    agent = Agent(seed=1)
    looks: list[Look] = []

    def after(turn: int) -> None:
        if turn % 5 == 0:
            check(agent.cache)
        if turn + 1 in (WARM_UP_TURNS, NUM_TURNS):
            looks.append(Look(tensor_bytes(), process_bytes()))

    agent.turns(NUM_TURNS, after)
    return Soaked(agent, *looks)


@pytest.mark.slow
def test_a_thousand_turns_fade_evict_and_keep_their_books(soaked: Soaked) -> None:
    cache = soaked.agent.cache
    check(cache)
    assert cache.tokens_seen > 20 * BUDGET_TOKENS
    assert cache.layout.num_faded > 0
    assert sum(cache.evicted_per_region().values()) > 0


@pytest.mark.slow
def test_no_tensors_pile_up(soaked: Soaked) -> None:
    # What became of each token is remembered, which takes so much of each.
    remembered = FATE_BYTES * soaked.agent.cache.tokens_seen
    assert soaked.end.tensors <= MOST_TENSOR_GROWTH * soaked.warm.tensors + remembered


@pytest.mark.slow
@pytest.mark.skipif(not STATUS.exists(), reason="the process's memory is read from /proc")
def test_the_process_does_not_grow(soaked: Soaked) -> None:
    assert soaked.end.process - soaked.warm.process <= MOST_PROCESS_GROWTH_BYTES


@pytest.mark.slow
def test_the_same_turns_end_in_the_same_cache(soaked: Soaked) -> None:
    second = Agent(seed=1)
    second.turns(NUM_TURNS)

    first = soaked.agent
    assert second.cache.layout == first.cache.layout
    assert second.cache.tokens_seen == first.cache.tokens_seen
    torch.testing.assert_close(second.last_logits, first.last_logits, rtol=0, atol=0)
    torch.testing.assert_close(
        tensors_of(second.cache), tensors_of(first.cache), rtol=0, atol=0, equal_nan=True
    )


def tensors_of(cache: DecayCache) -> list[Tensor]:
    """Return the columns of the metadata, and each layer's keys and values unpacked."""
    slots = cache.slots
    tensors = [slots.positions, slots.importance, slots.regions, slots.attention]
    for layer in cache.layers:
        tensors.extend(layer.dense(torch.float32))
    return tensors
