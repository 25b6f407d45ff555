"""Tokens that draw attention for long become key decisions, within bounds."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from memdecay.classifier.regions import NUM_REGIONS, Region, RegionTable
from memdecay.runtime.config import CacheConfig, LateTaggingConfig
from memdecay.runtime.late_tagging import late_tags, promote
from memdecay.runtime.metadata import Slots

TABLE = RegionTable()
NUM_TOKENS = 64
CONFIG = CacheConfig(
    40,
    num_recent=4,
    num_sinks=2,
    late_tagging=LateTaggingConfig(max_share=0.1, min_attention=3.0, min_age_tokens=10),
)


def slots_with(attention: dict[int, float], regions: dict[int, Region] | None = None) -> Slots:
    slots = Slots.empty(1, torch.device("cpu")).append(NUM_TOKENS, TABLE)
    mass = torch.full((1, NUM_TOKENS), 0.001)
    for place, value in attention.items():
        mass[0, place] = value
    slots = slots.with_attention(mass, 1.0)
    for place, region in (regions or {}).items():
        probs = torch.eye(NUM_REGIONS)[torch.tensor([[region]])]
        slots = slots.with_tags(place, torch.tensor([[1.0]]), probs, TABLE)
    return slots


def promoted(slots: Slots, config: CacheConfig = CONFIG) -> list[int]:
    return promote(slots, config, TABLE).is_promoted[0].nonzero().squeeze(1).tolist()


def test_a_token_that_later_ones_attend_to_becomes_a_key_decision() -> None:
    slots = promote(slots_with({20: 1.0, 21: 1.0}), CONFIG, TABLE)

    assert slots.regions[0, 20] == Region.KEY_DECISION
    assert slots.importance[0, 20] == TABLE[Region.KEY_DECISION].initial_score
    assert slots.decay[0, 20].item() == pytest.approx(TABLE[Region.KEY_DECISION].decay)
    (tag,) = late_tags(slots)
    assert (tag.start, tag.stop, tag.at) == (20, 22, NUM_TOKENS)
    assert tag.region is Region.ORDINARY_CONTEXT
    assert tag.attention > 3


def test_it_is_off_unless_it_is_given_a_share() -> None:
    off = replace(CONFIG, late_tagging=LateTaggingConfig())
    slots = slots_with({20: 1.0})
    assert promote(slots, off, TABLE) is slots


@pytest.mark.parametrize("place", [0, 1, NUM_TOKENS - 10, NUM_TOKENS - 1])
def test_sinks_and_the_young_are_left_out(place: int) -> None:
    assert promoted(slots_with({place: 1.0})) == []


@pytest.mark.parametrize("region", [Region.SYSTEM_INSTRUCTION, Region.KEY_DECISION])
def test_regions_that_are_worth_as_much_are_left_out(region: Region) -> None:
    assert promoted(slots_with({20: 1.0}, {20: region})) == []


@pytest.mark.parametrize(
    "region", [Region.TOOL_SUMMARY, Region.RECENT_DIALOGUE, Region.ORDINARY_CONTEXT]
)
def test_the_others_remember_where_they_came_from(region: Region) -> None:
    slots = promote(slots_with({20: 1.0}, {20: region}), CONFIG, TABLE)
    assert [tag.region for tag in late_tags(slots)] == [region]


def test_the_chat_templates_tokens_are_left_out() -> None:
    slots = slots_with({20: 1.0}).with_template(20, torch.tensor([[True]]))
    assert promoted(slots) == []


def test_the_most_attended_win_the_share_and_no_more_come_later() -> None:
    slots = promote(slots_with({place: 1.0 + place for place in range(10, 18)}), CONFIG, TABLE)
    assert slots.is_promoted[0].nonzero().squeeze(1).tolist() == [14, 15, 16, 17]
    assert promoted(slots) == [14, 15, 16, 17]


def test_a_tagger_that_looks_again_does_not_take_it_back() -> None:
    slots = promote(slots_with({20: 1.0}), CONFIG, TABLE)
    ordinary = torch.eye(NUM_REGIONS)[torch.tensor([[Region.ORDINARY_CONTEXT] * 2])]
    again = slots.with_tags(20, torch.ones(1, 2), ordinary, TABLE)
    assert again.regions[0, 20:22].tolist() == [Region.KEY_DECISION, Region.ORDINARY_CONTEXT]


def test_importance_never_falls_by_it() -> None:
    slots = slots_with({20: 1.0})
    raised: Tensor = slots.importance.clone()
    raised[0, 20] = 50.0
    slots = promote(replace(slots, importance=raised), CONFIG, TABLE)
    assert slots.importance[0, 20] == 50.0


@pytest.mark.parametrize(
    ("name", "value"), [("max_share", 1.0), ("min_attention", 0.0), ("min_age_tokens", 0)]
)
def test_its_settings_have_ranges(name: str, value: float) -> None:
    with pytest.raises(ValueError, match=f"{name} must be"):
        LateTaggingConfig(**{name: value})
