"""The cache looks at each token once, before it fades, and ranks by what it sees."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from memdecay.classifier.llm import LanguageModel
from memdecay.runtime.attach import attach
from memdecay.runtime.cache import DecayCache
from memdecay.runtime.config import PACKAGED, CacheConfig
from memdecay.runtime.foresight.norms import log_norms
from memdecay.runtime.preparation import make_cache, with_head
from tests.tiny import tiny_head, tiny_language_model

NUM_NORMS = 2 * 4 * 2
HEAD = tiny_head(NUM_NORMS)
CONFIG = CacheConfig(96, num_sinks=2, num_recent=16, foresight=HEAD)
IDS = torch.randint(3, 384, (1, 240), generator=torch.Generator().manual_seed(0))


@pytest.fixture(scope="module")
def llm() -> LanguageModel:
    return tiny_language_model(initializer_range=0.3, hidden_size=64)


def fill(llm: LanguageModel, config: CacheConfig, chunk: int = 16) -> DecayCache:
    cache = make_cache(llm, config, None)
    with attach(llm.model, cache), torch.inference_mode():
        for start in range(0, IDS.shape[1], chunk):
            llm.model(input_ids=IDS[:, start : start + chunk], cache=cache)
    return cache


@pytest.mark.parametrize("chunk", [4, 16])
def test_foresight_is_that_of_each_token_before_it_faded(llm: LanguageModel, chunk: int) -> None:
    cache = fill(llm, CONFIG, chunk)
    with torch.inference_mode():
        full = llm.model(input_ids=IDS, use_cache=True).cache
    expected = HEAD.foresee(log_norms([(each.keys, each.values) for each in full.layers]))
    slots = cache.slots
    known = ~slots.foresight[0].isnan()
    assert known.sum() > 30
    # Later tokens read a past that has faded already.
    early = known & (slots.positions[0] < 64)
    assert early.any()
    torch.testing.assert_close(
        slots.foresight[0, early], expected[0, slots.positions[0, early]], atol=1e-4, rtol=1e-4
    )


@pytest.mark.parametrize("policy", ["streaming", "region", "tova"])
def test_a_policy_without_use_for_it_costs_no_look(llm: LanguageModel, policy: str) -> None:
    cache = fill(llm, replace(CONFIG, policy=policy))
    assert cache.tokens_kept < IDS.shape[1]
    assert cache.slots.foresight.isnan().all()


def test_what_is_foreseen_decides_who_fades(llm: LanguageModel) -> None:
    plain = fill(llm, replace(CONFIG, foresight=None)).slots.positions.tolist()
    turned = replace(HEAD, weights=tuple(-weight for weight in HEAD.weights))
    kept = {
        name: fill(llm, replace(CONFIG, foresight=head)).slots.positions.tolist()
        for name, head in (("head", HEAD), ("turned", turned))
    }
    assert kept["head"] != plain
    assert kept["head"] != kept["turned"]


def test_a_head_that_says_nothing_changes_nothing_but_the_exponent(llm: LanguageModel) -> None:
    silent = replace(HEAD, weights=(0.0,) * NUM_NORMS, attention_weight=1.0)
    with_silent = fill(llm, replace(CONFIG, foresight=silent))
    without = fill(llm, replace(CONFIG, foresight=None))
    assert torch.equal(with_silent.slots.positions, without.slots.positions)
    assert with_silent.layout == without.layout


def test_the_package_has_no_head_for_an_unknown_model(llm: LanguageModel) -> None:
    assert CacheConfig(96, num_recent=16).foresight == PACKAGED
    assert with_head(CacheConfig(96, num_recent=16), llm).foresight is None
