"""Settings of the regions steer which tokens fade and which stay."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from memdecay.classifier.region_settings import RegionSettings
from memdecay.classifier.regions import NUM_REGIONS, Region
from memdecay.runtime.attach import attach
from memdecay.runtime.cache import DecayCache
from memdecay.runtime.config import CacheConfig, FadingConfig, FeedbackConfig
from memdecay.runtime.fading import Step, plan_fading
from memdecay.runtime.fading_regions import floor_tokens, plan_within_caps
from memdecay.runtime.precision.layout import FULL_BITS, Layout, Move

from .reference import make_cache, random_ids, tiny_llama

STEPS = (Step(2, 0.15, 0.1), Step(4, 0.3, 0.005), Step(16, 1.0, 0.0))
NUM_TOKENS = 240
COSTS = tuple(step.cost for step in STEPS)
SYSTEM, DECISION, ORDINARY = (
    Region.SYSTEM_INSTRUCTION,
    Region.KEY_DECISION,
    Region.ORDINARY_CONTEXT,
)


def five(default: Any, **values: Any) -> tuple[Any, ...]:
    """Return one value a region, the default but for those named."""
    return tuple(values.get(region.label, default) for region in Region)


def fed_cache(
    settings: RegionSettings,
    *,
    regions: list[Region] | None = None,
    probs: Tensor | None = None,
    **options: Any,
) -> DecayCache:
    """Return a cache of 44 tokens' room that has seen 240 tokens tagged in equal runs."""
    cache = make_cache(
        tiny_llama(),
        44,
        policy="memdecay",
        num_recent=8,
        attention_feedback=False,
        fading=FadingConfig(steps=(4, 2), num_exact=6),
        feedback=FeedbackConfig(prior_weight=1.0),
        **options,
    )
    cache.config = cache.config.with_regions(settings)
    if probs is None:
        runs = regions or [ORDINARY, DECISION]
        each = torch.tensor(runs).repeat_interleave(math.ceil(NUM_TOKENS / len(runs)))[:NUM_TOKENS]
        probs = torch.nn.functional.one_hot(each, NUM_REGIONS).float()
    ids = random_ids(1, NUM_TOKENS)
    # Tokens of one region differ in worth, so that none of them stand or fall together.
    importance = torch.exp(
        2 * torch.randn(1, NUM_TOKENS, generator=torch.Generator().manual_seed(1))
    )
    with attach(tiny_llama(), cache), torch.inference_mode():
        for start in range(0, NUM_TOKENS, 12):
            rows = slice(start, start + 12)
            tiny_llama()(input_ids=ids[:, rows], cache=cache, use_cache=True)
            cache.set_tags(start, importance[:, rows], probs[None, rows])
    return cache


def bits_by_region(cache: DecayCache) -> dict[Region, list[int]]:
    """Return the bits of the kept tokens that are not recent."""
    bits = [bits for bits, start, stop in cache.layout.ranges() for _ in range(start, stop)]
    slots = cache.slots
    found: dict[Region, list[int]] = {region: [] for region in Region}
    free = ~(slots.is_recent(24) | slots.is_sink(2))[0]
    for place in free.nonzero().flatten().tolist():
        found[Region(int(slots.regions[0, place]))].append(bits[place])
    return found


def snapshot(cache: DecayCache) -> tuple[list[int], Layout, list[Tensor]]:
    dense = [layer.dense(torch.float32)[0] for layer in cache.layers]
    return cache.slots.positions[0].tolist(), cache.layout, dense


def test_settings_without_weights_change_nothing() -> None:
    plain = snapshot(fed_cache(RegionSettings()))
    untouched = snapshot(fed_cache(RegionSettings(weights=five(0.0), min_bits=five(2))))

    assert plain[:2] == untouched[:2]
    assert all(torch.equal(a, b) for a, b in zip(plain[2], untouched[2], strict=True))


def test_a_weight_moves_tokens_to_finer_steps_and_others_to_coarser_ones() -> None:
    plain = bits_by_region(fed_cache(RegionSettings()))
    weighted = bits_by_region(fed_cache(RegionSettings(weights=five(0.0, key_decision=3.0))))

    assert sum(weighted[DECISION]) > sum(plain[DECISION])
    assert sum(weighted[ORDINARY]) < sum(plain[ORDINARY])


def test_a_weight_counts_as_far_as_the_tagger_is_sure() -> None:
    probs = torch.zeros(NUM_TOKENS, NUM_REGIONS)
    probs[:, DECISION], probs[:, ORDINARY] = 0.25, 0.75
    cache = fed_cache(RegionSettings(weights=five(0.0, key_decision=2.0)), probs=probs)

    assert cache.slots.region_weight[0].tolist() == pytest.approx([0.5] * cache.tokens_kept)


def test_equal_weights_for_all_regions_rank_as_none_do() -> None:
    plain, shifted = fed_cache(RegionSettings()), fed_cache(RegionSettings(weights=five(1.5)))
    assert plain.slots.positions.tolist() == shifted.slots.positions.tolist()


@pytest.mark.parametrize("bits", [4, 8, 16])
def test_a_region_never_falls_below_its_bits_while_it_is_kept(bits: int) -> None:
    settings = RegionSettings(
        weights=five(0.0, key_decision=2.0), min_bits=five(2, key_decision=bits)
    )
    found = bits_by_region(fed_cache(settings))

    assert found[DECISION]
    assert all(each >= bits for each in found[DECISION])
    assert 2 in bits_by_region(fed_cache(RegionSettings()))[DECISION]


def test_a_floor_keeps_a_region_that_is_worth_nothing() -> None:
    weights = five(0.0, key_decision=-30.0)
    regions = [DECISION, ORDINARY, ORDINARY, ORDINARY]
    without = fed_cache(RegionSettings(weights=weights), regions=regions)
    floored = fed_cache(
        RegionSettings(weights=weights, min_shares=five(0.0, key_decision=0.2)), regions=regions
    )

    assert not bits_by_region(without)[DECISION]
    kept = bits_by_region(floored)[DECISION]
    assert kept
    # 20 % of what is left beside the protected tokens, at the coarsest step.
    step_bytes = floored.layers[0].step_bytes
    assert len(kept) * step_bytes[2] <= 0.2 * 44 * step_bytes[FULL_BITS]


def test_floors_of_all_the_room_still_fit_the_budget() -> None:
    settings = RegionSettings(min_shares=five(0.2), min_bits=five(16))
    cache = fed_cache(settings, regions=list(Region))
    full_token = 2 * 2 * 8 * 4 * len(cache.layers)
    assert cache.peak_bytes <= 44 * full_token


def test_a_cap_leaves_room_to_the_others() -> None:
    weights = five(0.0, key_decision=4.0)

    def bytes_of(cap: float | None) -> float:
        settings = RegionSettings(weights=weights, max_shares=five(None, key_decision=cap))
        cache = fed_cache(settings, regions=[ORDINARY, DECISION, DECISION, ORDINARY])
        step_bytes = cache.layers[0].step_bytes
        kept = bits_by_region(cache)
        return sum(step_bytes[bits] for bits in kept[DECISION]) / step_bytes[FULL_BITS]

    assert bytes_of(0.2) <= 0.2 * 44 + 1
    assert bytes_of(None) > 0.2 * 44 + 2


@given(
    worth=st.lists(st.floats(-5, 5), min_size=8, max_size=40),
    cap=st.floats(0.1, 0.9),
    share=st.floats(0.2, 0.9),
)
def test_caps_hold_while_others_want_the_room(worth: list[float], cap: float, share: float) -> None:
    num = len(worth)
    regions = torch.tensor([[DECISION if i % 2 else ORDINARY for i in range(num)]])
    plan = plan_of(num, share * num)

    move = plan_within_caps(
        plan, torch.tensor([worth]), regions, five(None, key_decision=cap), COSTS, share * num
    )

    spent = spent_by(move, regions)
    others = [COSTS[step] for step in steps_in(move, regions, ORDINARY)]
    wants_room = len(others) < (num + 1) // 2 or any(cost < 1 for cost in others)
    if wants_room:
        assert spent[DECISION] <= cap * share * num + 1e-4
    assert sum(spent.values()) <= share * num + 1e-4


def plan_of(num: int, budget: float) -> Any:
    layout = Layout((2, 4, 16), (0, 0, num))
    return partial(
        plan_fading,
        layout=layout,
        steps=STEPS,
        is_protected=torch.zeros(1, num, dtype=torch.bool),
        budget=budget,
    )


def steps_in(move: Move, regions: Tensor, region: Region) -> list[int]:
    steps = move.after.steps(regions.device)
    return steps[regions[0, move.indices[0]] == region].tolist()


def spent_by(move: Move, regions: Tensor) -> dict[Region, float]:
    return {
        region: sum(COSTS[step] for step in steps_in(move, regions, region)) for region in Region
    }


def test_floors_take_the_best_of_each_region_within_their_share() -> None:
    worth = torch.tensor([[1.0, 5.0, 3.0, -math.inf, 9.0]])
    regions = torch.tensor([[DECISION, DECISION, DECISION, DECISION, ORDINARY]])
    costs = torch.full((1, 5), 0.5)

    kept = floor_tokens(worth, regions, costs, five(0.0, key_decision=0.1), room=10.0)

    assert kept[0].tolist() == [False, True, True, False, False]
    assert not floor_tokens(worth, regions, costs, five(0.2), room=-3.0).any()


@pytest.mark.parametrize(
    ("settings", "is_kept"),
    [
        (RegionSettings(), True),
        (RegionSettings(template_weight=6.0, weights=five(1.0)), True),
        (RegionSettings(template_weight=-6.0), False),
    ],
)
def test_template_tokens_have_a_weight_of_their_own(
    settings: RegionSettings, is_kept: bool
) -> None:
    fading = FadingConfig(num_exact=6)
    config = CacheConfig(44, num_sinks=2, num_recent=8, attention_feedback=False, fading=fading)
    cache = DecayCache(tiny_llama().config, config.with_regions(settings), template_ids=(7,))
    ids = random_ids(1, NUM_TOKENS)
    ids[ids == 7] = 8
    ids[0, [20, 50]] = 7
    with attach(tiny_llama(), cache), torch.inference_mode():
        for start in range(0, NUM_TOKENS, 12):
            tiny_llama()(input_ids=ids[:, start : start + 12], cache=cache, use_cache=True)

    kept = cache.slots.positions[0].tolist()
    assert ({20, 50} <= set(kept)) is is_kept
    marked = cache.slots.positions[cache.slots.is_template].tolist()
    assert set(marked) == {20, 50} & set(kept)


def test_settings_change_shares_and_prior_of_a_configuration() -> None:
    config = CacheConfig(1024, max_region_share=0.6)
    settings = RegionSettings(max_shares=five(None, key_decision=0.3), prior_weight=0.0)

    applied = config.with_regions(settings)

    assert applied.region_shares == (0.6, 0.3, 0.6, 0.6, 0.6)
    assert applied.feedback == FeedbackConfig(prior_weight=0.0)
    assert applied.regions == settings
    assert config.with_regions(RegionSettings()) == config
    assert replace(applied, max_region_share=0.9).regions == settings
