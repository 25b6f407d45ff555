"""Random schedules of forwards, evictions, crops and tags against the full cache that hides."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from memdecay.classifier.errors import BudgetError
from memdecay.classifier.regions import NUM_REGIONS
from memdecay.runtime.cache import DecayCache
from memdecay.runtime.policies import POLICIES
from tests.runtime.reference import Twin, make_cache, random_ids, tiny_llama
from tests.tiny import tiny_head

BUDGET = 18
HEAD = tiny_head(2 * 3 * 2)


@dataclass(frozen=True)
class Step:
    """One thing that happens to the cache; `size` is tokens, or a seed for tags."""

    action: str
    size: int


feeds = st.builds(Step, st.just("feed"), st.integers(1, 7))
others = st.builds(Step, st.sampled_from(["evict", "room", "crop", "tag"]), st.integers(1, 6))
schedules = st.lists(st.one_of(feeds, feeds, others), min_size=3, max_size=14)
paddings = st.lists(st.integers(0, 6), min_size=1, max_size=3)
policies = st.sampled_from(sorted(POLICIES))


def tag_all(cache: DecayCache, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    shape = (cache.slots.positions.shape[0], cache.tokens_seen)
    importance = torch.rand(shape, generator=generator) * 100 + 0.1
    probs = torch.rand((*shape, NUM_REGIONS), generator=generator).softmax(-1)
    cache.set_tags(0, importance, probs)


def can_take_back(cache: DecayCache, num_tokens: int) -> bool:
    """Tell whether the newest tokens are all kept, and are not all there is."""
    ages = cache.slots.ages
    return ages.shape[1] > num_tokens and bool((ages[:, -num_tokens] == num_tokens - 1).all())


def check_guards(cache: DecayCache) -> None:
    """Sinks are there, padding is in front, columns and buffers agree."""
    slots = cache.slots
    assert slots.num_kept == cache.tokens_kept == cache.layers[0].keys.shape[2]
    assert bool((slots.positions.diff(dim=1) > 0).all())
    assert bool((slots.is_pad.int().diff(dim=1) <= 0).all())
    for row, pad_length in enumerate(slots.pad_lengths.tolist()):
        kept = set(slots.positions[row].tolist())
        real = range(pad_length, cache.tokens_seen)
        if cache.policy.protects_sinks:
            assert set(real[: cache.config.num_sinks]) <= kept


def check_columns_follow_tokens(twin: Twin) -> None:
    """Every kept key of the first layer is the full cache's key at its logical position."""
    positions = twin.cache.slots.positions
    full_keys = twin.full.layers[0].keys
    index = positions[:, None, :, None].expand(-1, full_keys.shape[1], -1, full_keys.shape[3])
    ours = twin.cache.layers[0].keys
    is_real = ~twin.cache.slots.is_pad[:, None, :, None]
    torch.testing.assert_close(ours * is_real, full_keys.gather(2, index) * is_real)


@settings(max_examples=40, deadline=None)
@given(schedules, paddings, policies)
def test_any_schedule_equals_a_full_cache_that_hides_the_same_tokens(
    schedule: list[Step], pad_lengths: list[int], policy: str
) -> None:
    model = tiny_llama()
    cache = make_cache(model, BUDGET, policy=policy, low_watermark=0.6, foresight=HEAD)
    pad_lengths = [length - min(pad_lengths) for length in pad_lengths]
    twin = Twin(model, cache, random_ids(len(pad_lengths), 120), pad_lengths)
    for step in [Step("feed", 8), *schedule, Step("feed", 3)]:
        if step.action == "feed":
            cache.make_room(step.size)
            ours, expected = twin.feed(step.size)
            torch.testing.assert_close(ours, expected, rtol=0, atol=1e-4)
        elif step.action == "evict":
            cache.evict()
        elif step.action == "room":
            cache.make_room(step.size)
        elif step.action == "tag":
            tag_all(cache, step.size)
        elif can_take_back(cache, step.size):
            twin.crop(step.size)
        check_guards(cache)
        check_columns_follow_tokens(twin)
        if cache.policy.evicts:
            assert cache.peak_bytes <= BUDGET * cache.bytes_per_token


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(1, 16), min_size=1, max_size=12))
def test_the_buffers_hold_what_make_room_grants(chunks: list[int]) -> None:
    model = tiny_llama()
    cache = make_cache(model, BUDGET, low_watermark=0.6)
    states = torch.randn(2, 2, 16, 8)
    for size in chunks:
        try:
            cache.make_room(size)
        except BudgetError:
            assert size > cache.config.max_chunk_tokens
            continue
        for layer_idx in range(3):
            cache.update(states[:, :, :size], states[:, :, :size], layer_idx)
        assert cache.tokens_kept <= BUDGET
    assert cache.peak_bytes == cache.allocated_bytes <= BUDGET * cache.bytes_per_token
