"""The policy `learned`: a distilled score without regions, which evicts only."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from memdecay.classifier.errors import ConfigError
from memdecay.classifier.llm import LanguageModel
from memdecay.classifier.regions import NUM_REGIONS, RegionTable
from memdecay.runtime.attach import attach
from memdecay.runtime.cache import DecayCache
from memdecay.runtime.config import PACKAGED, CacheConfig, FeedbackConfig
from memdecay.runtime.foresight.head import MOST_DEVIATION
from memdecay.runtime.metadata import Slots
from memdecay.runtime.observer import observe_attention
from memdecay.runtime.policies import make_policy
from memdecay.runtime.session import Session
from tests.runtime.reference import Twin, make_cache, random_ids, tiny_llama
from tests.tiny import tiny_head, tiny_language_model

HEAD = tiny_head(2 * 3 * 2)
FEEDBACK = FeedbackConfig(pool_width=3, attention_floor=0.1)
CONFIG = CacheConfig(1024, policy="learned", foresight=HEAD, feedback=FEEDBACK)


def slots_with(attention: list[float], foresight: list[float]) -> Slots:
    slots = Slots.empty(1, torch.device("cpu")).append(len(attention), RegionTable())
    return replace(slots, attention=torch.tensor([attention]), foresight=torch.tensor([foresight]))


def expected_scores(attention: list[float], foresight: list[float]) -> list[float]:
    """Work the score out number by number."""
    known = [share for share in attention if not math.isnan(share)]
    mean = sum(known) / len(known)
    relative = [1.0 if math.isnan(share) else share / mean for share in attention]
    scores = []
    for i, seen in enumerate(foresight):
        around = relative[max(i - 1, 0) : i + 2]
        pooled = sum(around) / len(around)
        scores.append(0.5 * math.log(0.1 + pooled) + (0.0 if math.isnan(seen) else seen))
    return scores


def test_the_score_is_attention_so_far_and_what_is_foreseen() -> None:
    attention = [0.6, 0.1, math.nan, 0.2, 0.0, 0.05, 0.9]
    foresight = [-1.0, 2.0, 0.3, math.nan, 0.7, -0.2, 0.0]

    scores = make_policy(CONFIG).score(slots_with(attention, foresight), ())

    assert scores[0].tolist() == pytest.approx(expected_scores(attention, foresight), abs=1e-5)


def test_neither_age_nor_regions_nor_template_tokens_count() -> None:
    slots = slots_with([0.25] * 8, [0.5] * 8)
    tagged = replace(
        slots,
        importance=torch.rand(1, 8) * 100,
        decay=torch.rand(1, 8),
        region_weight=torch.rand(1, 8) * 3,
        is_template=torch.arange(8)[None] % 2 == 0,
    )
    policy = make_policy(CONFIG)

    assert policy.score(tagged, ()).unique().numel() == 1
    assert torch.equal(policy.score(tagged, ()), policy.score(slots, ()))
    assert not policy.caps_regions


@pytest.mark.parametrize("foresight", [None, PACKAGED])
def test_without_a_head_it_is_refused_in_one_sentence(foresight: str | None) -> None:
    with pytest.raises(ConfigError, match="make one with `memdecay foresee`") as refused:
        make_policy(replace(CONFIG, foresight=foresight))
    assert ". " not in str(refused.value)


def test_a_session_of_a_model_without_a_head_is_refused_at_once() -> None:
    with pytest.raises(ConfigError, match="needs a foresight head"):
        Session(tiny_language_model(), CacheConfig(200, policy="learned"))


def caches(budget_tokens: int = 24, **options: object) -> DecayCache:
    options = {"policy": "learned", "foresight": HEAD, "low_watermark": 0.6, **options}
    return make_cache(tiny_llama(), budget_tokens, **options)


@torch.no_grad()
def test_those_stay_that_an_independent_computation_chooses() -> None:
    """Attention from the stock model, norms from its own cache, the ranking by numpy."""
    ids = random_ids(1, 20)
    feedback = FeedbackConfig(layers=(0, 2), window_queries=5, pool_width=1)
    cache = caches(feedback=feedback)
    model = tiny_llama()
    with observe_attention(model.model, cache):
        model(ids, cache=cache)
    cache.make_room(8)  # 24 - 8 tokens have room, the low watermark lies at 14

    full = tiny_llama("eager")(ids, output_attentions=True, use_cache=True)
    window = (full.attentions[0] + full.attentions[2])[0, :, -5:].mean(dim=0) / 2
    viewers = np.array([5.0] * 16 + [4.0, 3.0, 2.0, 1.0])
    attention = window.sum(dim=0).numpy() / viewers
    norms = np.stack(
        [
            np.log(np.linalg.norm(states[0, head].numpy(), axis=-1))
            for layer in full.past_key_values.layers
            for states in (layer.keys, layer.values)
            for head in range(2)
        ],
        axis=1,
    )
    foresight = np.clip(norms, -MOST_DEVIATION, MOST_DEVIATION) @ np.array(HEAD.weights)
    scores = 0.5 * np.log(feedback.attention_floor + attention / attention.mean()) + foresight
    scores[[0, 1, *range(16, 20)]] = np.inf  # two sinks, the newest four
    expected = sorted(np.argsort(-scores)[:14].tolist())
    assert cache.slots.positions[0].tolist() == expected
    assert expected != [0, 1, *range(8, 20)]  # not simply the newest


@pytest.mark.parametrize("pad_lengths", [[0], [0, 5]])
@torch.no_grad()
def test_it_equals_a_full_cache_that_hides_the_same_tokens(pad_lengths: list[int]) -> None:
    cache = caches()
    twin = Twin(tiny_llama(), cache, random_ids(len(pad_lengths), 120), pad_lengths)
    lost = set()
    with attach(tiny_llama(), cache):
        for chunk in (16, 8, 1, 1, 8, 1, 12, *[1] * 12):
            cache.make_room(chunk)
            ours, expected = twin.feed(chunk)
            torch.testing.assert_close(ours, expected, rtol=0, atol=1e-4)
            lost |= set(range(cache.tokens_seen)) - set(cache.slots.positions[0].tolist())
    assert len(lost) > 30
    assert cache.peak_bytes <= 24 * cache.bytes_per_token
    assert not cache.fades


def test_tags_change_nothing() -> None:
    ids = random_ids(1, 64)

    def kept(seed: int | None) -> list[int]:
        cache = caches()
        with attach(tiny_llama(), cache), torch.no_grad():
            for start in range(0, 64, 8):
                tiny_llama()(ids[:, start : start + 8], cache=cache)
                if seed is not None:
                    generator = torch.Generator().manual_seed(seed)
                    shape = (1, cache.tokens_seen)
                    probs = torch.rand((*shape, NUM_REGIONS), generator=generator).softmax(-1)
                    cache.set_tags(0, torch.rand(shape, generator=generator) * 100 + 0.1, probs)
        positions: list[int] = cache.slots.positions[0].tolist()
        return positions

    assert kept(None) == kept(0) == kept(1)


@pytest.fixture(scope="module")
def llm() -> LanguageModel:
    return tiny_language_model(initializer_range=0.2, max_position_embeddings=2048)


def test_a_session_holds_its_budget_and_evicts_only(llm: LanguageModel) -> None:
    config = CacheConfig(80, num_recent=12, policy="learned", foresight=tiny_head(2 * 4 * 2))
    session = Session(llm, config)
    session.prefill([{"role": "user", "content": "words and more words of it. " * 20}])
    session.reply(8)

    stats = session.stats()
    assert stats.tokens_kept <= 80 < stats.tokens_seen
    assert stats.peak_kv_bytes <= 80 * session.cache.bytes_per_token
    assert {span.bits for span in session.cache.fates()} == {0}
