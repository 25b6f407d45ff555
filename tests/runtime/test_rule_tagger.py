"""The rule tagger in a session: its tags in the cache are those of the rules on the whole text."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from memdecay.classifier.llm import LanguageModel
from memdecay.classifier.propagation import PropagationConfig, importance_of
from memdecay.classifier.regions import Region, RegionDecay, RegionTable
from memdecay.classifier.rendering import render
from memdecay.classifier.rules import GrowingLabels, growing, rule_labels
from memdecay.classifier.rules.confidence import rule_region_probs
from memdecay.classifier.tokenization import tokenize
from memdecay.runtime.config import CacheConfig
from memdecay.runtime.label_tags import LabelTags
from memdecay.runtime.rule_tagger import RuleTagger
from memdecay.runtime.session import Session
from tests.tiny import tiny_language_model

TRACE = [
    {"role": "system", "content": "You are a booking agent. Never pay without asking."},
    {"role": "user", "content": "Book me a flight to Oslo."},
    {
        "role": "assistant",
        "content": "I will look for flights first.",
        "tool_calls": [{"id": "1", "function": {"name": "flights", "arguments": {"to": "Oslo"}}}],
    },
    {"role": "tool", "content": '{"flight": "SK 817", "seats": 4}', "tool_call_id": "1"},
    {"role": "assistant", "content": "I will take SK 817."},
]


@pytest.fixture(scope="module")
def llm() -> LanguageModel:
    return tiny_language_model(max_position_embeddings=2048, initializer_range=0.2)


def full_session(llm: LanguageModel, **options: Any) -> Session:
    return Session(llm, CacheConfig(256, policy="full"), RuleTagger(), **options)


def regions_in_cache(session: Session) -> list[int]:
    regions: list[int] = session.cache.slots.regions[0].tolist()
    return regions


@pytest.mark.parametrize("chunk_tokens", [7, 512])
def test_a_read_tokens_region_is_what_the_rules_say_of_its_characters(
    llm: LanguageModel, chunk_tokens: int
) -> None:
    session = full_session(llm, chunk_tokens=chunk_tokens)
    session.feed(TRACE)

    rendered = render(TRACE, llm.tokenizer)
    tokens = tokenize(rendered, llm.tokenizer)
    labels = rule_labels(TRACE)
    found = regions_in_cache(session)
    num_checked = 0
    for (start, end), region in zip(tokens.offsets.tolist(), found, strict=True):
        for message, characters in zip(rendered.messages, labels, strict=True):
            if message.content_start <= start and end <= message.content_end:
                own = characters[start - message.content_start : end - message.content_start]
                assert region in set(own.tolist())
                num_checked += 1
            elif message.calls_start <= start and end <= message.calls_end:
                assert region == Region.TOOL_SUMMARY
                num_checked += 1
    assert num_checked > 60
    assert len(set(found)) > 2


def test_importance_in_the_cache_is_that_of_the_whole_sequence(llm: LanguageModel) -> None:
    table = RegionTable(key_decision=RegionDecay(40.0, 0.01))
    propagation = PropagationConfig(radius=2, attenuation=0.5)
    tagger = RuleTagger(table, propagation)
    session = Session(llm, CacheConfig(256, policy="full"), tagger, chunk_tokens=5)
    session.feed(TRACE)

    labels = np.array(regions_in_cache(session), np.int8)
    probs = torch.from_numpy(rule_region_probs(labels))[None]
    is_real = torch.ones(probs.shape[:2], dtype=torch.bool)
    assert_close(session.cache.slots.importance, importance_of(probs, is_real, table, propagation))
    assert session.cache.region_table == table


def test_a_finished_reply_has_the_rules_labels_of_its_text(llm: LanguageModel) -> None:
    session = full_session(llm)
    session.feed(TRACE[:2])
    reply = session.reply(max_new_tokens=40)
    session.send([{"role": "user", "content": "Thanks!"}], max_new_tokens=1)

    labels = rule_labels([*TRACE[:2], {"role": "assistant", "content": reply.text}])[-1]
    assert len(reply.text) == len(labels)
    start = reply.num_prompt_tokens
    found = regions_in_cache(session)[start : start + len(reply.token_ids)]
    assert set(found) <= {*labels.tolist(), int(Region.ORDINARY_CONTEXT)}


def test_a_reply_is_looked_at_now_and_then_only(
    llm: LanguageModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = []
    peek = GrowingLabels.peek

    def counted(self: GrowingLabels, *args: Any) -> Any:
        looks.append(args)
        return peek(self, *args)

    session = full_session(llm)
    session.feed(TRACE[:2])
    monkeypatch.setattr(GrowingLabels, "peek", counted)
    num_tokens = len(session.reply(max_new_tokens=40).token_ids)

    # One look at the reply's first token, one at its end, and one whenever it has grown enough.
    assert 2 <= len(looks) <= 2 + num_tokens // 16


def test_a_message_is_looked_at_once_over_many_turns(
    llm: LanguageModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = []
    labels_of = growing._labels

    def counted(turn: Any, speakers: Any) -> Any:
        read.append(turn.text)
        return labels_of(turn, speakers)

    monkeypatch.setattr(growing, "_labels", counted)
    session = full_session(llm)
    session.feed(TRACE)
    for turn in range(4):
        session.send([{"role": "user", "content": f"And {turn}?"}], max_new_tokens=2)
    assert [read.count(message["content"]) for message in TRACE] == [1] * len(TRACE)
    assert [read.count(f"And {turn}?") for turn in range(4)] == [1] * 4


def test_a_changed_past_is_tagged_anew(llm: LanguageModel) -> None:
    session = full_session(llm)
    session.feed(TRACE[:2])
    first = regions_in_cache(session)
    session.reset()
    session.feed(TRACE)
    session.reset()
    session.feed(TRACE[:2])
    assert regions_in_cache(session) == first


@pytest.mark.parametrize(
    ("tagger", "keeps_instructions"),
    [(RuleTagger(RegionTable(system_instruction=RegionDecay(100.0, 0.0))), True), (None, False)],
)
def test_instructions_outlive_newer_text(
    llm: LanguageModel, tagger: RuleTagger | None, keeps_instructions: bool
) -> None:
    config = CacheConfig(64, policy="region", num_recent=8, num_sinks=0, max_region_share=1.0)
    session = Session(llm, config, tagger)
    filler = {"role": "tool", "content": "line of output, no end of them\n" * 24}
    session.feed([*TRACE[:3], filler])
    is_early = session.cache.slots.positions[0] < 40
    assert session.stats().tokens_kept <= 64
    assert (int(is_early.sum()) >= 20) == keeps_instructions


def test_probabilities_sum_to_one_and_favour_the_label() -> None:
    probs = rule_region_probs(np.arange(-1, 5, dtype=np.int8))
    np.testing.assert_allclose(probs.sum(axis=1), 1.0, atol=1e-6)
    assert probs.argmax(axis=1).tolist() == [4, 0, 1, 2, 3, 4]


def test_what_is_not_known_counts_as_ordinary_context() -> None:
    tags = LabelTags(RegionTable(), PropagationConfig(radius=0)).tags(0, 3)
    assert tags.region_probs.argmax(dim=-1).tolist() == [[4, 4, 4]]
    assert_close(tags.importance, torch.ones(1, 3))


def test_a_gap_in_what_is_known_is_refused() -> None:
    tags = LabelTags(RegionTable(), PropagationConfig())
    with pytest.raises(ValueError, match="start must be from 0 to 0, got 2"):
        tags.replace_from(2, rule_region_probs(np.zeros(3, np.int8)))


def test_importance_by_another_table_is_the_graphs_own_where_the_table_is_the_same() -> None:
    from memdecay.classifier.graph import TaggingGraph
    from tests.runtime.artifacts import random_graph, random_inputs

    graph: TaggingGraph = random_graph()
    inputs = random_inputs(3, 20)
    region_probs, importance = graph(*inputs)
    again = importance_of(region_probs, inputs[2], RegionTable(), graph.propagation)
    assert_close(again, importance)
