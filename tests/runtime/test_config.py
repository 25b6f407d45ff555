from __future__ import annotations

from typing import Any

import pytest

from memdecay.classifier.errors import BudgetError
from memdecay.runtime.config import CacheConfig, FeedbackConfig


def test_defaults_fit_a_budget_of_1024() -> None:
    config = CacheConfig(1024)

    assert (config.num_protected, config.high_tokens, config.low_tokens) == (132, 1024, 921)
    assert config.max_chunk_tokens == 892
    assert config.region_shares == (0.5,) * 5


def test_eviction_stops_at_the_protected_tokens() -> None:
    config = CacheConfig(100, low_watermark=0.2, num_sinks=4, num_recent=40)

    assert config.low_tokens == 44


def test_shares_per_region_replace_the_common_share() -> None:
    shares = (0.2, 0.3, 0.4, 0.5, 1.0)

    assert CacheConfig(1024, max_share_per_region=shares).region_shares == shares


def test_budget_below_the_protected_tokens_is_refused() -> None:
    with pytest.raises(BudgetError, match="budget of 100 tokens has no room beside the 132"):
        CacheConfig(100)


@pytest.mark.parametrize(
    "options",
    [
        {"budget_tokens": 140, "high_watermark": 0.94},
        {"budget_tokens": 4, "num_sinks": 0, "num_recent": 0, "high_watermark": 0.95},
    ],
)
def test_watermarks_without_room_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(BudgetError, match="leaves no room"):
        CacheConfig(**options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"budget_tokens": 0}, "budget_tokens"),
        ({"num_sinks": -1}, "num_sinks"),
        ({"num_recent": -1}, "num_recent"),
        ({"low_watermark": 1.0}, "watermarks"),
        ({"high_watermark": 1.1}, "watermarks"),
        ({"low_watermark": 0.0}, "watermarks"),
        ({"max_region_share": 0.0}, "share"),
        ({"max_share_per_region": (0.5, 0.5)}, "max_share_per_region"),
        ({"max_share_per_region": (0.5, 0.5, 0.5, 0.5, 1.5)}, "share"),
    ],
)
def test_value_out_of_range_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        CacheConfig(**{"budget_tokens": 1024, **options})


@pytest.mark.parametrize(
    "options",
    [
        {"observe_every_tokens": 0},
        {"window_queries": 0},
        {"pool_width": 0},
        {"pool_width": 4},
        {"half_life_tokens": 0.0},
        {"attention_floor": 0.0},
        {"prior_weight": -0.5},
    ],
)
def test_feedback_out_of_range_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(options))):
        FeedbackConfig(**options)
