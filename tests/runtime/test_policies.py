from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable

import pytest
import torch

from memdecay.classifier.errors import ConfigError
from memdecay.classifier.regions import RegionTable
from memdecay.runtime.config import CacheConfig, FeedbackConfig
from memdecay.runtime.metadata import Slots
from memdecay.runtime.policies import POLICIES, Blend, MemdecayPolicy, make_policy
from memdecay.runtime.policies.selective import SelectivePolicy
from memdecay.runtime.policies.snapkv import SnapKvPolicy
from tests.tiny import tiny_head


def slots_with(attention: list[float], *, num_pads: int = 0) -> Slots:
    """Return a row of untagged tokens that got this attention."""
    slots = Slots.empty(1, torch.device("cpu")).with_padding(torch.tensor([num_pads]))
    slots = slots.append(len(attention), RegionTable())
    return dataclasses.replace(slots, attention=torch.tensor([attention]))


def random_keys(num_kept: int, *, num_layers: int = 3) -> tuple[torch.Tensor, ...]:
    generator = torch.Generator().manual_seed(0)
    shape = (1, 2, num_kept, 8)
    return tuple(torch.randn(shape, generator=generator) for _ in range(num_layers))


@pytest.mark.parametrize("name", POLICIES)
def test_scores_have_the_shape_of_the_slots_and_no_nan(name: str) -> None:
    slots = slots_with([math.nan, 0.0, 0.5, math.nan])

    config = CacheConfig(1024, policy=name, foresight=tiny_head(12))
    scores = make_policy(config).score(slots, random_keys(4))

    assert scores.shape == (1, 4)
    assert not scores.isnan().any()


@pytest.mark.parametrize("name", ["full", "window", "streaming", "selective", "region", "memdecay"])
def test_without_tags_and_attention_the_newer_token_scores_higher(name: str) -> None:
    slots = slots_with([math.nan] * 50)

    scores = make_policy(CacheConfig(1024, policy=name)).score(slots, ())

    assert bool((scores.diff(dim=1) > 0).all())


@pytest.mark.parametrize("name", ["h2o", "tova", "snapkv", "keydiff", "knorm", "selective"])
def test_baselines_protect_sinks_and_know_no_regions(name: str) -> None:
    policy = make_policy(CacheConfig(1024, policy=name))

    assert policy.evicts
    assert policy.protects_sinks
    assert not policy.caps_regions
    assert policy.uses_keys == (name in ("keydiff", "knorm"))
    assert policy.uses_attention != policy.uses_keys


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


def test_tova_ranks_by_the_newest_query_and_keeps_what_it_has_not_seen() -> None:
    policy = make_policy(CacheConfig(1024, policy="tova"))

    scores = policy.score(slots_with([0.5, 0.1, 0.4, math.nan]), ())

    assert scores[0].argsort().tolist() == [1, 2, 0, 3]
    assert policy.observation.blend is Blend.LATEST


def test_snapkv_pools_before_its_window_and_keeps_the_window() -> None:
    attention = [0.0, 0.0, 0.0, 0.9, 0.0, 0.0, 0.3, 0.3, 0.3]

    scores = SnapKvPolicy(window_queries=3, pool_width=3).score(slots_with(attention), ())

    expected = [0.0, 0.0, 0.3, 0.3, 0.3, 0.0, 1.0, 1.0, 1.0]
    assert scores[0].tolist() == pytest.approx(expected)


def test_h2o_keeps_the_newer_half_then_the_heavy_hitters() -> None:
    policy = make_policy(CacheConfig(1024, policy="h2o"))

    scores = policy.score(slots_with([3.0, 9.0, 1.0, 2.0, 0.1, 0.0, math.nan]), ())

    best_first = scores[0].argsort(descending=True).tolist()
    assert best_first == [6, 5, 4, 1, 0, 3, 2]
    assert policy.observation.blend is Blend.SUM


def test_selective_lets_low_attention_go_first_and_the_oldest_of_equals() -> None:
    # The mean is 0.4: 0.11 lies below 0.3 times it, 0.13 does not.
    attention = [0.11, 0.13, 1.0, 0.11, 0.65, math.nan]

    scores = SelectivePolicy(threshold=0.3).score(slots_with(attention), ())

    assert scores[0].argsort().tolist() == [0, 3, 1, 2, 4, 5]


def test_keydiff_keeps_the_key_that_points_elsewhere() -> None:
    keys = torch.tensor([[1.0, 0.0], [1.0, 0.1], [-1.0, 0.2], [2.0, 0.0]]).view(1, 1, 4, 2)

    scores = make_policy(CacheConfig(1024, policy="keydiff")).score(slots_with([0.0] * 4), (keys,))

    assert scores[0].argmax().item() == 2
    # Length does not count, only direction.
    assert scores[0, 0].item() == pytest.approx(scores[0, 3].item())


def test_keys_of_padding_do_not_move_the_mean_direction() -> None:
    policy = make_policy(CacheConfig(1024, policy="keydiff"))
    (keys,) = random_keys(5, num_layers=1)

    padded = policy.score(slots_with([0.0] * 5, num_pads=2), (keys,))
    plain = policy.score(slots_with([0.0] * 3), (keys[:, :, 2:],))

    torch.testing.assert_close(padded[:, 2:], plain)


def test_knorm_averages_over_layers_and_heads() -> None:
    keys = random_keys(6)

    scores = make_policy(CacheConfig(1024, policy="knorm")).score(slots_with([0.0] * 6), keys)

    expected = -torch.stack([key.norm(dim=-1) for key in keys]).mean(dim=(0, 2))
    torch.testing.assert_close(scores, expected)


def test_policies_that_need_keys_say_so() -> None:
    with pytest.raises(ValueError, match="ranks by the keys"):
        make_policy(CacheConfig(1024, policy="knorm")).score(slots_with([0.0]), ())


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (lambda: SnapKvPolicy(window_queries=0), "window_queries"),
        (lambda: SnapKvPolicy(pool_width=4), "pool_width"),
        (lambda: SelectivePolicy(threshold=0.0), "threshold"),
        (lambda: SelectivePolicy(threshold=math.nan), "threshold"),
    ],
)
def test_settings_out_of_range_are_refused(make: Callable[[], object], name: str) -> None:
    with pytest.raises(ValueError, match=name):
        make()
