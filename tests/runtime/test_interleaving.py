"""All that makes a cache smaller, interleaved: the books, the guards and the logits hold."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from transformers import DynamicCache

from memdecay.classifier.errors import BudgetError
from memdecay.runtime.attach import attach
from memdecay.runtime.cache import DecayCache
from memdecay.runtime.config import FadingConfig
from memdecay.runtime.early_config import EarlyConfig
from memdecay.runtime.invariants import check_invariants
from memdecay.runtime.metadata import Slots

from .reference import hiding_mask, make_cache, random_ids, tiny_llama

BUDGET = 96
NUM_RECENT, NUM_SINKS = 8, 2
STEPS = {"fades": (4, 2), "forgets": ()}


@dataclass(frozen=True)
class Marks:
    """The shares of the budget at which something happens."""

    early: float
    high: float
    low: float


def decaying_cache(kind: str, marks: Marks, block_tokens: int) -> DecayCache:
    return make_cache(
        tiny_llama(),
        BUDGET,
        policy="memdecay",
        num_recent=NUM_RECENT,
        num_sinks=NUM_SINKS,
        high_watermark=marks.high,
        low_watermark=marks.low,
        block_tokens=block_tokens,
        early=EarlyConfig(watermark=marks.early, margin=0.5, every_tokens=2, most_tokens=5),
        fading=FadingConfig(steps=STEPS[kind], num_exact=6, room_share=marks.high - marks.low),
    )


class Interleaved:
    """Drives a cache, and a full one that hides and rounds what the cache forgot and faded."""

    def __init__(self, cache: DecayCache) -> None:
        self.cache = cache
        self.full = DynamicCache(config=tiny_llama().config)
        self.pinned: set[int] = set()
        self.num_early = self.num_moves = 0
        self._ids = random_ids(1, 2000)
        self._num_run = 0

    def feed(self, num_tokens: int) -> None:
        """Run one forward with both caches and compare the logits."""
        ids = self._ids[:, self._num_run : self._num_run + num_tokens]
        self._num_run += num_tokens
        start = self.cache.tokens_seen
        with torch.no_grad(), attach(tiny_llama(), self.cache), self._counting():
            self.cache.make_room(num_tokens)
            kept = self._match() if start else torch.zeros(1, 0, dtype=torch.int64)
            ours = tiny_llama()(input_ids=ids, cache=self.cache, use_cache=True).logits
        with torch.no_grad():
            mask = hiding_mask(kept, start, torch.ones(1, start + num_tokens, dtype=torch.int64))
            positions = torch.arange(start, start + num_tokens)[None]
            theirs = tiny_llama()(
                input_ids=ids, attention_mask=mask, position_ids=positions, cache=self.full
            ).logits
        torch.testing.assert_close(ours, theirs, atol=3e-4, rtol=3e-4)
        self.check()

    def crop(self, num_tokens: int) -> None:
        """Take tokens back, as far as the newest are all there and none of them is pinned."""
        seen = self.cache.tokens_seen
        if self.pinned & set(range(seen - num_tokens, seen)):
            return
        if num_tokens < NUM_RECENT and num_tokens < self.cache.layout.num_full:
            self.cache.crop(-num_tokens)
            self.full.crop(-num_tokens)
            self.check()

    def pin(self, num_tokens: int) -> None:
        """Pin the newest tokens, where they find room."""
        seen = self.cache.tokens_seen
        try:
            self.cache.pin(seen - num_tokens, seen, room_tokens=40)
        except BudgetError:
            return
        self.pinned |= set(range(seen - num_tokens, seen))

    def unpin(self) -> None:
        """Let go all that was pinned."""
        self.cache.unpin()
        self.pinned.clear()

    def tag(self, seed: int) -> None:
        """Give all tokens importances that differ by orders of magnitude."""
        generator = torch.Generator().manual_seed(seed)
        seen = self.cache.tokens_seen
        importance = torch.exp(16 * torch.rand((1, seen), generator=generator) - 8) ** 4
        probs = torch.nn.functional.one_hot(torch.zeros(1, seen, dtype=torch.int64), 5)
        self.cache.set_tags(0, importance, probs.float())

    def check(self) -> None:
        """Check the books, the bytes and that what is pinned is there as it was."""
        check_invariants(self.cache)
        assert self.cache.peak_bytes <= BUDGET * self.cache.bytes_per_token
        positions = self.cache.slots.positions[0].tolist()
        assert set(range(NUM_SINKS)) <= set(positions)
        assert self.pinned <= set(positions[self.cache.layout.num_faded :])
        if not self.cache.fades:
            assert self.cache.tokens_kept <= self.cache.config.high_tokens

    def _match(self) -> Tensor:
        """Round the full cache's tokens as the cache has them; return which those are."""
        positions = self.cache.slots.positions
        for ours, theirs in zip(self.cache.layers, self.full.layers, strict=True):
            keys, values = ours.dense(torch.float32)
            index = positions[:, None, :, None].expand_as(keys)
            theirs.keys.scatter_(2, index, keys)
            theirs.values.scatter_(2, index, values)
        return positions.clone()

    @contextmanager
    def _counting(self) -> Iterator[None]:
        """Count what goes early and what goes in need while the block runs."""
        cache = self.cache
        early_of, moves_of = cache._keep_slots, (cache._fade_early, cache._evict_early)
        is_early = False

        def keep_slots(slots: Slots, indices: Tensor, bits: Tensor, scores: Tensor) -> int:
            self.num_early += is_early
            self.num_moves += not is_early
            gone = set(slots.positions[0].tolist()) - set(slots.keep(indices).positions[0].tolist())
            newest = set(range(slots.num_seen - NUM_RECENT, slots.num_seen))
            assert not gone & (newest | self.pinned)
            return early_of(slots, indices, bits, scores)

        def early(number: int) -> int:
            nonlocal is_early
            is_early = True
            try:
                return moves_of[number]()
            finally:
                is_early = False

        patch = pytest.MonkeyPatch()
        patch.setattr(cache, "_keep_slots", keep_slots)
        patch.setattr(cache, "_fade_early", lambda: early(0))
        patch.setattr(cache, "_evict_early", lambda: early(1))
        try:
            yield
        finally:
            patch.undo()


@dataclass(frozen=True)
class Step:
    """One thing that happens; `size` is tokens, or a seed for tags."""

    action: str
    size: int


MARKS = [Marks(0.6, 0.8, 0.7), Marks(0.6, 1.0, 0.9), Marks(0.3, 0.9, 0.6)]
decoding = st.builds(Step, st.just("decode"), st.integers(1, 10))
chunks = st.builds(Step, st.just("feed"), st.integers(2, 30))
others = st.builds(
    Step, st.sampled_from(["crop", "pin", "unpin", "tag", "reorder"]), st.integers(1, 6)
)


def run(driver: Interleaved, step: Step) -> None:
    """Do one step."""
    match step.action:
        case "decode":
            for _ in range(step.size):
                driver.feed(1)
        case "feed":
            driver.feed(step.size)
        case "crop":
            driver.crop(step.size)
        case "pin":
            driver.pin(step.size)
        case "unpin":
            driver.unpin()
        case "tag":
            driver.tag(step.size)
        case _:
            driver.cache.reorder_cache(torch.tensor([0]))
    driver.check()


@pytest.mark.parametrize("kind", STEPS)
@settings(max_examples=8, deadline=None)
@given(
    schedule=st.lists(st.one_of(decoding, chunks, others), min_size=4, max_size=9),
    marks=st.sampled_from(MARKS),
    block_tokens=st.sampled_from([1, 4, 16]),
)
def test_any_mixture_keeps_the_books_the_guards_and_the_logits(
    kind: str, schedule: list[Step], marks: Marks, block_tokens: int
) -> None:
    driver = Interleaved(decaying_cache(kind, marks, block_tokens))
    driver.feed(30)
    driver.tag(0)
    driver.feed(28)
    for step in schedule:
        run(driver, step)


@pytest.mark.parametrize("block_tokens", [1, 16])
@pytest.mark.parametrize("marks", MARKS[:2])
@pytest.mark.parametrize("kind", STEPS)
def test_both_kinds_of_going_happen_in_one_session(
    kind: str, marks: Marks, block_tokens: int
) -> None:
    driver = Interleaved(decaying_cache(kind, marks, block_tokens))
    driver.feed(30)
    for number in range(30):
        driver.tag(number // 6)
        driver.feed(1 + 4 * (number % 2))
        if number == 8:
            driver.pin(4)
        if number == 14:
            driver.crop(2)
        if number == 20:
            driver.feed(40)

    assert driver.num_early >= 1
    assert driver.num_moves >= 1
