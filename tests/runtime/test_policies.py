from __future__ import annotations

import dataclasses
import math

import pytest
import torch

from memdecay.classifier.errors import ConfigError
from memdecay.classifier.regions import RegionTable
from memdecay.runtime.config import CacheConfig, FeedbackConfig
from memdecay.runtime.metadata import Slots
from memdecay.runtime.policies import POLICIES, MemdecayPolicy, make_policy


def slots_with(attention: list[float], *, num_pads: int = 0) -> Slots:
    """Return a row of untagged tokens that got this attention."""
    slots = Slots.empty(1, torch.device("cpu")).with_padding(torch.tensor([num_pads]))
    slots = slots.append(len(attention), RegionTable())
    return dataclasses.replace(slots, attention=torch.tensor([attention]))


@pytest.mark.parametrize("name", POLICIES)
def test_scores_have_the_shape_of_the_slots_and_no_nan(name: str) -> None:
    slots = slots_with([math.nan, 0.0, 0.5, math.nan])

    scores = make_policy(CacheConfig(1024, policy=name)).score(slots, ())

    assert scores.shape == (1, 4)
    assert not scores.isnan().any()


@pytest.mark.parametrize("name", POLICIES)
def test_without_tags_and_attention_the_newer_token_scores_higher(name: str) -> None:
    slots = slots_with([math.nan] * 50)

    scores = make_policy(CacheConfig(1024, policy=name)).score(slots, ())

    assert bool((scores.diff(dim=1) > 0).all())


def test_guards_are_what_the_names_promise() -> None:
    def guards(name: str) -> tuple[bool, bool, bool, bool]:
        policy = make_policy(CacheConfig(1024, policy=name))
        return (
            policy.evicts,
            policy.protects_sinks,
            policy.caps_regions,
            policy.uses_attention,
        )

    assert not guards("full")[0]
    assert guards("window") == (True, False, False, False)
    assert guards("streaming") == (True, True, False, False)
    assert guards("region") == (True, True, True, False)
    assert guards("memdecay") == (True, True, True, True)


def test_unknown_policy_is_refused() -> None:
    with pytest.raises(ConfigError, match="expected one of full, window, streaming"):
        make_policy(CacheConfig(1024, policy="lru"))


def test_memdecay_follows_its_formula() -> None:
    feedback = FeedbackConfig(pool_width=1, attention_floor=0.1, prior_weight=0.5)
    slots = slots_with([0.6, 0.1, math.nan, 0.2])

    scores = MemdecayPolicy(feedback).score(slots, ())

    decay = RegionTable().ordinary_context.decay
    expected = [
        math.log(0.1 + relative) + 0.5 * (0.0 - decay * age)
        for relative, age in zip([2.0, 1 / 3, 1.0, 2 / 3], [3, 2, 1, 0], strict=True)
    ]
    assert scores[0].tolist() == pytest.approx(expected, abs=1e-5)


def test_attention_of_padding_does_not_move_the_mean() -> None:
    policy = MemdecayPolicy(FeedbackConfig(pool_width=1))

    padded = policy.score(slots_with([9.0, 0.3, 0.1], num_pads=1), ())
    plain = policy.score(slots_with([0.3, 0.1]), ())

    torch.testing.assert_close(padded[:, 1:], plain)


def test_pooling_lifts_the_neighbours_of_a_visited_token() -> None:
    attention = [0.0] * 5 + [1.0] + [0.0] * 5

    scores = MemdecayPolicy(FeedbackConfig(pool_width=3)).score(slots_with(attention), ())

    assert scores[0].topk(3).indices.sort().values.tolist() == [4, 5, 6]


def test_prior_weight_of_zero_ranks_by_attention_alone() -> None:
    policy = MemdecayPolicy(FeedbackConfig(pool_width=1, prior_weight=0.0))

    scores = policy.score(slots_with([0.5, 0.1, 0.4]), ())

    assert scores[0].argsort().tolist() == [1, 2, 0]
