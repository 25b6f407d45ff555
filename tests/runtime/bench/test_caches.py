from __future__ import annotations

import pytest
import torch
from transformers import DynamicCache

from memdecay.classifier.errors import BudgetError, ConfigError
from memdecay.runtime.bench.caches.budget import (
    cache_config,
    full_cache_bytes,
    tokens_for_budget,
)
from memdecay.runtime.bench.caches.variants import MODIFIERS, parse_variant
from memdecay.runtime.bench.quality.config import QualityConfig
from tests.runtime.bench.traces import language_model


def test_full_bytes_are_those_of_a_full_cache() -> None:
    model = language_model().model
    cache = DynamicCache(config=model.config)
    with torch.no_grad():
        model(torch.arange(3, 20)[None], cache=cache)

    held = sum(layer.keys.nbytes + layer.values.nbytes for layer in cache.layers)
    assert full_cache_bytes(model.config, 17, torch.float32) == held
    assert full_cache_bytes(model.config, 17, torch.bfloat16) == held // 2


@pytest.mark.parametrize(("share", "tokens"), [(0.125, 500), (0.3, 1200), (1.0, 4000)])
def test_budget_is_a_share_of_the_tokens(share: float, tokens: int) -> None:
    assert tokens_for_budget(share, 4000) == tokens


@pytest.mark.parametrize("share", [0.0, -0.1, 1.01])
def test_share_out_of_range_is_refused(share: float) -> None:
    with pytest.raises(ValueError, match="above 0 and at most 1"):
        tokens_for_budget(share, 100)


def test_eviction_makes_room_for_one_chunk() -> None:
    config = cache_config("window", 0.125, 4001, QualityConfig(chunk_tokens=64))

    assert config.budget_tokens == 500
    assert config.low_tokens == 436
    assert config.high_tokens == 500


def test_budget_that_is_too_small_says_so() -> None:
    with pytest.raises(BudgetError, match="longer traces or a larger budget"):
        cache_config("window", 0.125, 1000, QualityConfig())


def test_variants_are_read() -> None:
    variant = parse_variant("memdecay@gold+no-caps+no-attention")

    assert (variant.policy, variant.tags) == ("memdecay", "gold")
    config = variant.configure(cache_config("memdecay", 0.5, 1000, QualityConfig()))
    assert config.max_region_share == 1.0
    assert not config.attention_feedback
    assert parse_variant("snapkv-per-head").is_headwise
    assert parse_variant("snapkv").is_baseline
    assert parse_variant("learned").is_baseline
    assert not parse_variant("region").is_baseline


@pytest.mark.parametrize("modifier", MODIFIERS)
def test_every_modifier_changes_the_cache(modifier: str) -> None:
    plain = cache_config("memdecay", 0.5, 1000, QualityConfig())

    assert parse_variant(f"memdecay+{modifier}").configure(plain) != plain


@pytest.mark.parametrize(
    ("name", "match"),
    [
        ("lru", "unknown policy 'lru'"),
        ("memdecay@", "unknown source of tags ''"),
        ("memdecay@oracle", "unknown source of tags 'oracle'"),
        ("memdecay+fast", "unknown modifier 'fast'"),
        ("snapkv-per-head@gold", "takes no tags"),
    ],
)
def test_unknown_variants_are_refused(name: str, match: str) -> None:
    with pytest.raises(ConfigError, match=match):
        parse_variant(name)
