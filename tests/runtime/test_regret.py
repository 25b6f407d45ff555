"""Eviction regret: right regions cost no more than themselves, and a mistake is made alone."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from memdecay.classifier.llm import LanguageModel
from memdecay.classifier.regions import Region
from memdecay.classifier.rendering import render
from memdecay.classifier.tokenization import tokenize
from memdecay.runtime.config import CacheConfig
from memdecay.runtime.given_tagger import GivenTagger
from memdecay.runtime.regret import RegretConfig, eviction_regret
from memdecay.runtime.session import Session
from tests.tiny import tiny_language_model

MESSAGES = [
    {"role": "system", "content": "You answer in numbers. " * 4},
    *(
        {"role": role, "content": f"{role} has a number, {index * 37}. " * 3}
        for index in range(4)
        for role in ("user", "assistant")
    ),
]
CONFIG = CacheConfig(64, policy="region", num_recent=8)


@pytest.fixture(scope="module")
def llm() -> LanguageModel:
    return tiny_language_model(max_position_embeddings=2048, initializer_range=0.3)


def gold_regions(llm: LanguageModel) -> Any:
    """Return system text, users' and assistants' as three regions, the template's as none."""
    tokens = tokenize(render(MESSAGES, llm.tokenizer), llm.tokenizer)
    by_role = np.array([0, 3, 1, 2, 4, -1], np.int8)[tokens.role]
    return np.where(tokens.is_special, -1, by_role).astype(np.int8)


def filled(gold: Any) -> Any:
    return np.where(gold < 0, Region.ORDINARY_CONTEXT, gold).astype(np.int8)


def test_a_tagger_that_is_right_has_no_regret(llm: LanguageModel) -> None:
    gold = gold_regions(llm)
    regret = eviction_regret(llm, CONFIG, MESSAGES, gold, GivenTagger(filled(gold)))
    assert regret is not None
    assert regret.num_wrong == 0
    assert regret.confusions == ()
    assert regret.kl_tagger == regret.kl_gold
    assert regret.kl_gold > 0
    assert regret.num_tokens == int((gold >= 0).sum())


def test_the_only_mistake_costs_what_the_tagger_costs(llm: LanguageModel) -> None:
    gold = gold_regions(llm)
    wrong = filled(gold)
    wrong[gold == Region.SYSTEM_INSTRUCTION] = Region.ORDINARY_CONTEXT
    told: list[tuple[int, int]] = []
    regret = eviction_regret(
        llm,
        CONFIG,
        MESSAGES,
        gold,
        GivenTagger(wrong),
        RegretConfig(max_positions=20),
        lambda done, total: told.append((done, total)),
    )
    assert regret is not None
    (cost,) = regret.confusions
    assert (cost.gold, cost.predicted) == (Region.SYSTEM_INSTRUCTION, Region.ORDINARY_CONTEXT)
    assert cost.num_tokens == regret.num_wrong == int((gold == 0).sum())
    assert cost.kl == regret.kl_tagger != regret.kl_gold
    assert regret.num_positions == 20
    assert told == [(2, 5), (3, 5), (4, 5), (5, 5)]


def test_the_most_frequent_confusions_come_first_up_to_the_limit(llm: LanguageModel) -> None:
    gold = gold_regions(llm)
    wrong = filled(gold)
    places = [np.flatnonzero(gold == region) for region in (1, 3)]
    wrong[places[0][:5]] = Region.TOOL_SUMMARY
    wrong[places[1][:9]] = Region.TOOL_SUMMARY
    config = RegretConfig(max_confusions=1)
    regret = eviction_regret(llm, CONFIG, MESSAGES, gold, GivenTagger(wrong), config)
    assert regret is not None
    assert regret.num_wrong == 14
    assert [cost.num_tokens for cost in regret.confusions] == [9]


def test_given_regions_are_those_in_the_cache(llm: LanguageModel) -> None:
    regions = filled(gold_regions(llm))
    config = replace(CONFIG, policy="full")
    session = Session(llm, config, GivenTagger(regions), chunk_tokens=13)
    session.feed(MESSAGES)
    assert session.cache.slots.regions[0].tolist() == regions.tolist()


def test_a_conversation_that_ends_within_the_budget_has_nothing_to_regret(
    llm: LanguageModel,
) -> None:
    config = CacheConfig(2000)
    gold = gold_regions(llm)
    assert eviction_regret(llm, config, MESSAGES, gold, GivenTagger(filled(gold))) is None


def test_gold_of_another_length_is_refused(llm: LanguageModel) -> None:
    gold = gold_regions(llm)
    with pytest.raises(ValueError, match="gold must have the shape"):
        eviction_regret(llm, CONFIG, MESSAGES, gold[1:], GivenTagger(filled(gold)))


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"max_confusions": -1}, "max_confusions must be 0 or more"),
        ({"max_positions": 0}, "max_positions must be 1 or more"),
        ({"chunk_tokens": 0}, "chunk_tokens must be 1 or more"),
    ],
)
def test_senseless_settings_are_refused(options: dict[str, Any], match: str) -> None:
    with pytest.raises(ValueError, match=match):
        RegretConfig(**options)
