"""Tokens that go before the budget is used up: few, and only those far below the threshold."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from memdecay.classifier.regions import UNTAGGED_TABLE
from memdecay.runtime.attach import attach
from memdecay.runtime.cache import DecayCache
from memdecay.runtime.cache_state import cache_state, load_cache_state
from memdecay.runtime.config import CacheConfig, FadingConfig
from memdecay.runtime.early_config import EarlyConfig
from memdecay.runtime.early_looks import EarlyLooks
from memdecay.runtime.eviction import choose_kept_early
from memdecay.runtime.fading import Choices, Step, lowest_price
from memdecay.runtime.fading_early import plan_far_below
from memdecay.runtime.fading_plan import room_gained
from memdecay.runtime.invariants import check_invariants
from memdecay.runtime.metadata import Slots
from memdecay.runtime.policies import POLICIES
from memdecay.runtime.policies.region import RegionPolicy
from memdecay.runtime.precision.layout import Layout, Move

from .reference import make_cache, random_ids, tiny_llama

STEPS = (Step(2, 0.15, 0.1), Step(4, 0.3, 0.005), Step(16, 1.0, 0.0))
BITS = (2, 4, 16)
EAGER = EarlyConfig(watermark=0.5, margin=0.5, every_tokens=4, most_tokens=8)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"watermark": 0.0}, "the early watermark must be above 0 and at most 1, got 0.0"),
        ({"watermark": 1.1}, "the early watermark must be above 0 and at most 1, got 1.1"),
        ({"watermark": math.nan}, "the early watermark must be above 0 and at most 1, got nan"),
        ({"margin": 0.0}, "the early margin must be above 0 and at most 1, got 0.0"),
        ({"margin": 2.0}, "the early margin must be above 0 and at most 1, got 2.0"),
        ({"every_tokens": 0}, "every_tokens must be 1 or more, got 0"),
        ({"most_tokens": 0}, "most_tokens must be 1 or more, got 0"),
    ],
)
def test_a_setting_out_of_its_range_is_refused(options: dict[str, float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        EarlyConfig(**options)  # type: ignore[arg-type]


def test_looks_are_spaced_and_only_above_the_mark() -> None:
    looks = EarlyLooks(EarlyConfig(watermark=0.6, every_tokens=10), 100)

    due = [seen for seen in range(50, 100) if looks.is_due(seen, seen)]

    assert due == [61, 71, 81, 91]


def test_at_1_nothing_is_ever_looked_at() -> None:
    looks = EarlyLooks(EarlyConfig(watermark=1.0, every_tokens=1), 100)

    assert not any(looks.is_due(seen, seen) for seen in range(101))


# Where tokens are forgotten at once


def slots_with(log_scores: list[list[float]]) -> Slots:
    """Return tokens whose importance alone tells their region score."""
    scores = torch.tensor(log_scores, dtype=torch.float64)
    slots = Slots.empty(len(scores), scores.device).append(scores.shape[1], UNTAGGED_TABLE)
    return replace(slots, importance=scores.exp(), decay=torch.zeros_like(scores))


def early_config(**options: object) -> CacheConfig:
    settings = {"num_sinks": 1, "num_recent": 2, "max_region_share": 1.0, "policy": "region"}
    return CacheConfig(64, **{**settings, **options})  # type: ignore[arg-type]


scores = st.lists(st.floats(-6, 6), min_size=4, max_size=40)


@given(scores, st.sampled_from([0.02, 0.25, 1.0]), st.integers(1, 20), st.floats(0.3, 0.95))
def test_what_goes_scores_far_below_what_an_eviction_would_keep(
    log_scores: list[float], margin: float, most_tokens: int, low: float
) -> None:
    early = EarlyConfig(margin=margin, most_tokens=most_tokens)
    config = early_config(early=early, low_watermark=low)

    kept, _ = choose_kept_early(slots_with([log_scores]), (), RegionPolicy(), config)

    gone = sorted(set(range(len(log_scores))) - set(kept[0].tolist()))
    # An eviction of everything at the high mark, done by hand.
    can_go = sorted(log_scores[1:-2])
    num_gone = math.ceil((1 - config.low_tokens / config.high_tokens) * len(log_scores))
    worst_kept = can_go[min(num_gone, len(can_go) - 1)]
    far = sorted(score for score in can_go if score < worst_kept + math.log(margin) - 1e-9)
    assert sorted(log_scores[place] for place in gone) == pytest.approx(far[:most_tokens])
    assert all(1 <= place < len(log_scores) - 2 for place in gone)


@given(st.lists(st.tuples(st.floats(-6, 6), st.floats(-6, 6)), min_size=5, max_size=30))
def test_rows_give_up_as_many_as_all_of_them_can_spare(pairs: list[tuple[float, float]]) -> None:
    rows = [list(row) for row in zip(*pairs, strict=True)]
    config = early_config(early=EarlyConfig(margin=0.25, most_tokens=6), low_watermark=0.5)

    def num_gone(*chosen: list[float]) -> int:
        kept, _ = choose_kept_early(slots_with([*chosen]), (), RegionPolicy(), config)
        return len(pairs) - kept.shape[1]

    assert num_gone(*rows) == min(num_gone(row) for row in rows)


def test_padding_goes_before_what_is_far_below() -> None:
    slots = slots_with([[0.0] * 12, [0.0, 0.0, 0.0, 0.0, -9.0, *[0.0] * 7]])
    slots = slots.with_padding(torch.tensor([3, 0]))
    config = early_config(early=EarlyConfig(margin=0.25), low_watermark=0.5)

    kept, _ = choose_kept_early(slots, (), RegionPolicy(), config)

    assert kept[0].tolist() == [*range(1, 12)]
    assert kept[1].tolist() == [place for place in range(12) if place != 4]


def test_pinned_tokens_stay() -> None:
    slots = slots_with([[0.0, 0.0, -9.0, -9.0, 0.0, 0.0, 0.0, 0.0]]).with_pins(2, 3)
    config = early_config(early=EarlyConfig(margin=0.25), low_watermark=0.5)

    kept, _ = choose_kept_early(slots, (), RegionPolicy(), config)

    assert kept[0].tolist() == [0, 1, 2, 4, 5, 6, 7]


# Where they lose precision first


def choices_of(worth: Tensor, layout: Layout, protected: Tensor | None = None) -> Choices:
    is_protected = torch.zeros_like(worth, dtype=torch.bool) if protected is None else protected
    return Choices.of(worth, layout, STEPS, is_protected, None, None)


def bits_after(move: Move, row: int = 0) -> list[int]:
    bits = [0] * move.before.num_tokens
    for width, start, stop in move.after.ranges():
        for place in move.indices[row, start:stop].tolist():
            bits[place] = width
    return bits


def bits_before(layout: Layout) -> list[int]:
    return [bits for bits, start, stop in layout.ranges() for _ in range(start, stop)]


def best_bits(worth: float, present: int, price: float) -> int:
    """Return what a token would take at a price, by trying all."""
    options = {0: (0.0, 1.0), **{step.bits: (step.cost, step.noise) for step in STEPS}}
    allowed = [bits for bits in options if bits <= present]
    return min(allowed, key=lambda b: math.exp(worth) * options[b][1] + price * options[b][0])


def price_for(worth: list[float], present: list[int], budget: float) -> float:
    """Return the lowest price at which the tokens fit the budget, by bisection."""
    costs = {0: 0.0, **{step.bits: step.cost for step in STEPS}}
    low, high = -40.0, 60.0
    for _ in range(60):
        middle = (low + high) / 2
        chosen = [best_bits(w, p, math.exp(middle)) for w, p in zip(worth, present, strict=True)]
        if sum(costs[bits] for bits in chosen) <= budget:
            high = middle
        else:
            low = middle
    return math.exp(high)


layouts = st.tuples(st.floats(0, 0.5), st.floats(0, 0.5))


@given(
    worth=st.lists(st.integers(-80, 80), min_size=4, max_size=40, unique=True),
    faded=layouts,
    margin=st.sampled_from([1 / 64, 1 / 4]),
    share=st.floats(0.4, 0.97),
)
def test_a_token_falls_as_far_as_it_would_at_a_fraction_of_the_price(
    worth: list[int], faded: tuple[float, float], margin: float, share: float
) -> None:
    num = len(worth)
    low, mid = int(faded[0] * num), int(faded[1] * num)
    layout = Layout(BITS, (low, mid, num - low - mid))
    logs = [value / 8 for value in worth]

    move = plan_far_below(
        choices_of(torch.tensor([logs]), layout),
        layout,
        torch.tensor([logs]),
        share,
        math.log(margin),
        num,
    )

    before = bits_before(layout)
    costs = {step.bits: step.cost for step in STEPS}
    price = price_for(logs, before, share * sum(costs[bits] for bits in before))
    for slack in (1e-3, -1e-3):  # Where two choices are equally good, both are right.
        near = [
            best_bits(w, p, margin * price * (1 + slack)) for w, p in zip(logs, before, strict=True)
        ]
        agreed = [ours == theirs for ours, theirs in zip(bits_after(move), near, strict=True)]
        assert sum(not same for same in agreed) <= 1


@given(
    worth=st.lists(st.tuples(st.floats(-9, 9), st.floats(-9, 9)), min_size=4, max_size=24),
    most_tokens=st.integers(1, 6),
)
def test_no_row_loses_what_is_not_far_below_in_it(
    worth: list[tuple[float, float]], most_tokens: int
) -> None:
    rows = torch.tensor(worth).T
    layout = Layout(BITS, (1, 1, len(worth) - 2))
    choices = choices_of(rows, layout)

    move = plan_far_below(choices, layout, rows, 0.7, math.log(0.5), most_tokens)

    present = (layout.steps(rows.device) + 1).expand_as(rows)
    price = math.exp(lowest_price(choices, 0.7 * choices.cost(present)) + math.log(0.5))
    before = bits_before(layout)
    for row in range(2):
        after = bits_after(move, row)
        moved = [place for place in range(len(worth)) if after[place] != before[place]]
        assert len(moved) <= most_tokens
        for place in moved:
            # A hair's breadth of the price apart, both choices are right.
            assert after[place] >= min(
                best_bits(float(rows[row, place]), before[place], price * hair)
                for hair in (1 - 1e-4, 1 + 1e-4)
            )


def test_without_packing_tokens_go_or_stay_as_they_are() -> None:
    worth = torch.tensor([[-30.0, -4.0, 0.0, 0.0, 0.0, 0.0]])
    layout = Layout.all_full(BITS, 6)
    choices = choices_of(worth, layout)

    packs = plan_far_below(choices, layout, worth, 0.5, -1.0, 6)
    does_not = plan_far_below(choices, layout, worth, 0.5, -1.0, 6, may_pack=False)

    assert bits_after(packs) == [0, 4, 16, 16, 16, 16]
    assert bits_after(does_not) == [0, 16, 16, 16, 16, 16]


def test_protected_tokens_do_not_move() -> None:
    worth = torch.tensor([[-30.0, -30.0, 0.0, 0.0, 0.0, 0.0]])
    protected = torch.tensor([[True, False, False, False, False, False]])
    layout = Layout.all_full(BITS, 6)

    move = plan_far_below(choices_of(worth, layout, protected), layout, worth, 0.7, -1.0, 6)

    assert bits_after(move) == [16, 0, 16, 16, 16, 16]


# In the cache

WORTHLESS = slice(20, 25)


def early_cache(**options: object) -> DecayCache:
    settings = {
        "policy": "memdecay",
        "num_recent": 8,
        "attention_feedback": False,
        "early": EAGER,
        "fading": FadingConfig(steps=(4, 2), num_exact=6, room_share=0.15),
    }
    return make_cache(tiny_llama(), 96, **{**settings, **options})


def feed(cache: DecayCache, num_tokens: int, size: int = 4) -> None:
    """Feed tokens of which a few are worth next to nothing."""
    ids = random_ids(1, num_tokens)
    with torch.no_grad(), attach(tiny_llama(), cache):
        for start in range(0, num_tokens, size):
            new = ids[:, start : start + size]
            tiny_llama()(input_ids=new, cache=cache, use_cache=True)
            seen = cache.tokens_seen
            importance = torch.ones(1, seen)
            importance[:, WORTHLESS] = 1e-20
            probs = torch.nn.functional.one_hot(torch.zeros(1, seen, dtype=torch.int64), 5)
            cache.set_tags(0, importance, probs.float())
            check_invariants(cache)


FORGETS = {"fading": FadingConfig(steps=())}


@pytest.mark.parametrize("options", [{}, FORGETS, {"policy": "region"}])
def test_worthless_tokens_go_while_there_is_room(options: dict[str, object]) -> None:
    cache = early_cache(**options)

    feed(cache, 88)

    positions = cache.slots.positions[0].tolist()
    gone = set(range(88)) - set(positions)
    assert gone == set(range(20, 25))
    assert set(range(80, 88)) <= set(positions)
    assert {0, 1} <= set(positions)
    assert cache.peak_bytes <= 96 * cache.bytes_per_token


@pytest.mark.parametrize("options", [{}, FORGETS])
def test_nothing_goes_below_the_mark_or_with_it_off(options: dict[str, object]) -> None:
    below, off = early_cache(**options), early_cache(**options, early=EarlyConfig(watermark=1.0))

    feed(below, 48)
    feed(off, 88)

    assert (below.tokens_kept, off.tokens_kept) == (48, 88)


def test_freed_bytes_become_room_for_others() -> None:
    early, late = early_cache(), early_cache(early=EarlyConfig(watermark=1.0))
    feed(early, 88)
    feed(late, 88)

    assert early._room() > late._room()
    assert early.allocated_bytes <= late.allocated_bytes
    for layer in early.layers:
        assert layer.capacity == layer.layout.num_full + early._room()


def test_a_move_that_frees_less_than_the_basis_takes_is_not_made() -> None:
    cache = early_cache()
    feed(cache, 40)
    layers = cache._fading_layers
    before = layers[0].layout
    after = Layout(before.bits, (1, 0, before.num_full - 1))

    assert room_gained(Move(before, after, torch.arange(40)[None]), layers) < 0


@pytest.mark.parametrize("policy", sorted(POLICIES))
def test_only_logarithms_know_how_far_below_a_token_lies(policy: str) -> None:
    cache = early_cache(policy=policy, fading=FadingConfig(steps=()))

    feed(cache, 88)

    # The worthless tokens are so by their importance, which `learned` does not read.
    assert (cache.tokens_kept < 88) == (policy in ("region", "memdecay"))


def test_the_next_look_survives_a_move_to_another_place() -> None:
    cache, other = early_cache(), early_cache()
    feed(cache, 60)

    load_cache_state(other, {name: value.clone() for name, value in cache_state(cache).items()})

    assert other._looks.last_seen == cache._looks.last_seen > 0


def test_taken_back_tokens_do_not_put_the_next_look_off() -> None:
    cache = early_cache()
    feed(cache, 60)
    cache.crop(-4)

    assert cache._looks.last_seen <= cache.tokens_seen


def test_reset_begins_the_looks_anew() -> None:
    cache = early_cache()
    feed(cache, 60)
    cache.reset()

    assert cache._looks.last_seen == 0
