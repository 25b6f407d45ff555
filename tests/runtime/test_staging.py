"""Moves that are packed ahead, a few layers a step, while tokens come and go."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import DynamicCache

from memdecay.runtime import fading_move
from memdecay.runtime.attach import attach
from memdecay.runtime.cache import DecayCache
from memdecay.runtime.config import FadingConfig
from memdecay.runtime.invariants import check_invariants
from memdecay.runtime.precision.transfer import Transfer

from .reference import make_cache, random_ids, tiny_llama

BUDGET = 96
STAGING = FadingConfig(steps=(4, 2), num_exact=6, room_share=0.1, staging_share=0.1)


@pytest.fixture(autouse=True)
def _one_layer_a_step(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fading_move, "_LAYERS_AT_ONCE", 1)


class Driver:
    """Feeds one cache, and a full one whose first layer knows what every key was."""

    def __init__(self, fading: FadingConfig = STAGING, batch_size: int = 1) -> None:
        self.cache: DecayCache = make_cache(
            tiny_llama(), BUDGET, policy="memdecay", num_recent=8, fading=fading
        )
        self.full = DynamicCache(config=tiny_llama().config)
        self._ids = random_ids(batch_size, 1000)
        self._num_run = 0
        self.num_staged = 0
        self.num_finished = 0

    def feed(self, num_tokens: int) -> None:
        ids = self._ids[:, self._num_run : self._num_run + num_tokens]
        self._num_run += num_tokens
        was_staged = self.cache._staged
        with torch.no_grad(), attach(tiny_llama(), self.cache):
            tiny_llama()(input_ids=ids, cache=self.cache, use_cache=True)
        with torch.no_grad():
            tiny_llama()(input_ids=ids, cache=self.full, use_cache=True)
        self.num_staged += self.cache._staged is not None
        self.num_finished += was_staged is not None and self.cache._staged is None
        self.check()

    def crop(self, num_tokens: int) -> None:
        ages = self.cache.slots.ages
        if ages.shape[1] > num_tokens and bool((ages[:, -num_tokens] == num_tokens - 1).all()):
            self.cache.crop(-num_tokens)
            self.full.crop(-num_tokens)
            self.check()

    def check(self) -> None:
        check_invariants(self.cache)
        assert self.cache.peak_bytes <= BUDGET * self.cache.bytes_per_token
        layer, full = self.cache.layers[0], self.full.layers[0]
        positions = self.cache.slots.positions[:, None, :, None]
        # A first layer's keys follow from a token and its position, whatever was forgotten.
        for ours, theirs in zip(layer.dense(torch.float32), (full.keys, full.values), strict=True):
            expected = theirs.gather(2, positions.expand_as(ours))
            exact = slice(self.cache.layout.num_faded, None)
            torch.testing.assert_close(ours[:, :, exact], expected[:, :, exact])
            likeness = torch.cosine_similarity(ours, expected, dim=-1)
            assert likeness.mean() > 0.8


@dataclass(frozen=True)
class Step:
    action: str
    size: int


decoding = st.builds(Step, st.just("decode"), st.integers(1, 14))
chunks = st.builds(Step, st.just("feed"), st.integers(2, 40))
others = st.builds(Step, st.sampled_from(["crop", "pin", "reorder"]), st.integers(1, 4))


@settings(max_examples=6, deadline=None)
@given(st.lists(st.one_of(decoding, decoding, chunks, others), min_size=4, max_size=9))
def test_any_mixture_keeps_the_books_and_the_tokens(schedule: list[Step]) -> None:
    driver = Driver()
    driver.feed(80)
    driver.feed(40)
    for step in schedule:
        if step.action == "decode":
            for _ in range(step.size):
                driver.feed(1)
        elif step.action == "feed":
            driver.feed(step.size)
        elif step.action == "crop":
            driver.crop(step.size)
        elif step.action == "pin":
            seen = driver.cache.tokens_seen
            driver.cache.pin(seen - 1, seen)
        else:
            driver.cache.reorder_cache(torch.tensor([0]))
        driver.check()


def test_decoding_moves_what_was_packed_ahead() -> None:
    driver = Driver()
    driver.feed(80)
    driver.feed(40)
    for _ in range(40):
        driver.feed(1)
    # Plan, three layers, one to spare, then the move.
    assert driver.num_finished >= 2
    assert driver.num_staged >= 4 * driver.num_finished


def test_rows_of_a_batch_move_together() -> None:
    driver = Driver(batch_size=2)
    driver.feed(80)
    driver.feed(40)
    for _ in range(24):
        driver.feed(1)
    assert driver.num_finished >= 1


def test_nothing_is_packed_ahead_without_a_share_for_it() -> None:
    driver = Driver(FadingConfig(steps=(4, 2), num_exact=6, room_share=0.1))
    driver.feed(80)
    driver.feed(40)
    for _ in range(12):
        driver.feed(1)
    assert driver.num_staged == 0


@pytest.mark.parametrize("share", [-0.1, 1.0])
def test_the_share_has_a_range(share: float) -> None:
    with pytest.raises(ValueError, match="staging_share must be from 0 to below 1"):
        FadingConfig(staging_share=share)


def test_packed_tokens_that_all_stay_at_a_step_are_not_copied() -> None:
    driver = Driver()
    driver.feed(80)
    driver.feed(40)
    layer = driver.cache.layers[0]
    bits, first, stop = next(part for part in layer.layout.ranges() if part[1] < part[2])
    pool = layer._pools[bits]

    stays = layer.packed(Transfer(0, bits, bits, first, torch.arange(stop - first)))
    goes = layer.packed(Transfer(0, bits, bits, first, torch.arange(1, stop - first)))

    assert stays.keys.data_ptr() == pool.keys.data_ptr()
    assert torch.equal(goes.keys, pool.keys[:, :, 1:])
    assert torch.equal(goes.values, pool.values[:, :, 1:])
