"""A session tells what it forgot and keeps what was pinned."""

from __future__ import annotations

import pytest
import torch

from memdecay.classifier.errors import BudgetError
from memdecay.classifier.llm import LanguageModel
from memdecay.classifier.regions import Region, RegionTable
from memdecay.runtime.config import CacheConfig, LateTaggingConfig
from memdecay.runtime.fates import Fates
from memdecay.runtime.metadata import Slots
from memdecay.runtime.session import Session
from tests.tiny import CHATML, tiny_llama, tiny_tokenizer

FACT = {"role": "user", "content": "The door code is 4711, remember it."}
CHATTER = [
    {"role": role, "content": f"{role} {index} " + "says a few more words. " * 3}
    for index in range(8)
    for role in ("user", "assistant")
]


@pytest.fixture(scope="module")
def llm() -> LanguageModel:
    model = tiny_llama(max_position_embeddings=4096)
    return LanguageModel(model, tiny_tokenizer(CHATML), "tiny", torch.device("cpu"), torch.float32)


def session_of(llm: LanguageModel, budget_tokens: int = 96, policy: str = "memdecay") -> Session:
    return Session(llm, CacheConfig(budget_tokens, policy=policy, num_recent=12))


@pytest.mark.parametrize("policy", ["streaming", "memdecay"])
def test_what_is_told_is_what_the_cache_lost(llm: LanguageModel, policy: str) -> None:
    session = session_of(llm, policy=policy)

    session.feed([FACT, *CHATTER])

    kept = set(session.cache.slots.positions[0].tolist())
    told = [position for span in session.explain() for position in range(span.start, span.stop)]
    gone = {
        position
        for span in session.explain()
        if span.is_forgotten
        for position in range(span.start, span.stop)
    }
    assert gone == set(range(session.cache.tokens_seen)) - kept
    assert len(told) == len(set(told))
    assert all(span.at <= session.cache.tokens_seen for span in session.explain())
    faded = sum(span.stop - span.start for span in session.explain() if not span.is_forgotten)
    assert faded == session.cache.layout.num_faded


def test_texts_are_those_of_the_tokens(llm: LanguageModel) -> None:
    session = session_of(llm, policy="streaming")
    session.feed([FACT, *CHATTER])

    for span in session.explain():
        expected = llm.tokenizer.decode(session.token_ids[span.start : span.stop])
        assert span.text == expected
        assert span.region is Region.ORDINARY_CONTEXT


def test_nothing_is_told_before_anything_is_lost(llm: LanguageModel) -> None:
    session = session_of(llm, budget_tokens=4000)
    session.feed([FACT])

    assert session.explain() == ()


@pytest.mark.parametrize("policy", ["window", "streaming", "region", "memdecay"])
def test_a_pinned_message_stays_as_it_is(llm: LanguageModel, policy: str) -> None:
    session = session_of(llm, policy=policy)
    session.feed([FACT])

    session.pin(0)
    slots = session.cache.slots
    pinned = set(slots.positions[slots.is_pinned].tolist())
    session.feed(CHATTER)

    text = llm.tokenizer.decode([session.token_ids[position] for position in sorted(pinned)])
    assert FACT["content"] in text
    assert pinned <= set(session.cache.slots.positions[0].tolist())
    lost = {place for span in session.explain() for place in range(span.start, span.stop)}
    assert not lost & pinned
    assert session.cache.peak_bytes <= 96 * session.cache.bytes_per_token


def test_a_long_message_can_be_pinned_while_it_is_read(llm: LanguageModel) -> None:
    session = Session(llm, CacheConfig(200, num_recent=12), chunk_tokens=16)

    session.feed([*CHATTER[:2], FACT, *CHATTER[2:]], pins=(2,))

    slots = session.cache.slots
    places = slots.positions[slots.is_pinned].sort().values.tolist()
    text = llm.tokenizer.decode([session.token_ids[place] for place in places])
    assert FACT["content"] in text
    with pytest.raises(ValueError, match="pins must be from 0 to 0"):
        session.feed([FACT], pins=(1,))


def test_a_pin_that_does_not_fit_is_refused_and_changes_nothing(llm: LanguageModel) -> None:
    session, untouched = session_of(llm), session_of(llm)
    for each in (session, untouched):
        each.feed([{"role": "user", "content": "far too many words " * 9}])

    with pytest.raises(BudgetError, match="pin less or raise the budget"):
        session.pin(0)

    with pytest.raises(BudgetError, match="pin less or raise the budget"):
        session.feed([{"role": "user", "content": "again too many words " * 9}], pins=(0,))
    assert len(session.messages) == 1
    assert not session.cache.slots.is_pinned.any()
    for each in (session, untouched):
        each.feed(CHATTER)
    assert not session.cache.slots.is_pinned.any()
    assert session.cache.slots.positions.equal(untouched.cache.slots.positions)
    assert session.cache.layout == untouched.cache.layout


def test_forgotten_and_unknown_messages_cannot_be_pinned(llm: LanguageModel) -> None:
    session = session_of(llm, policy="window")
    session.feed([FACT, *CHATTER])

    with pytest.raises(ValueError, match="pin text before it is forgotten"):
        session.pin(0)
    with pytest.raises(ValueError, match="message must be one of the 17 so far"):
        session.pin(17)


def test_pins_leave_less_room_for_a_chunk(llm: LanguageModel) -> None:
    session = session_of(llm)
    session.feed([FACT])
    free = session.cache.config.budget_tokens - session.cache.config.num_protected
    session.pin(0)
    session.feed(CHATTER)

    with pytest.raises(BudgetError, match="use chunks of at most"):
        session.cache.make_room(free)


def test_fates_follow_rows_and_crops() -> None:
    slots = Slots.empty(2, torch.device("cpu"))
    slots = slots.append(4, RegionTable())
    fates = Fates.empty(2, torch.device("cpu")).after(
        slots, torch.tensor([[0, 0, 16, 16], [16, 4, 4, 16]]), torch.zeros(2, 4)
    )

    assert [(fate.start, fate.stop, fate.bits) for fate in fates.spans(0)] == [(0, 2, 0)]
    assert [(fate.start, fate.stop, fate.bits) for fate in fates.spans(1)] == [(1, 3, 4)]
    swapped = fates.select_rows(torch.tensor([1, 0]))
    assert swapped.spans(0) == fates.spans(1)
    assert [(fate.start, fate.stop) for fate in fates.first(2).spans(1)] == [(1, 2)]


def test_decisions_found_by_attention_are_told_and_counted(llm: LanguageModel) -> None:
    late = LateTaggingConfig(max_share=0.1, min_attention=1.0, min_age_tokens=24)
    session = Session(llm, CacheConfig(96, num_recent=12, late_tagging=late))

    session.feed([FACT, *CHATTER])

    found = [span for span in session.explain() if span.promoted_from is not None]
    assert 0 < sum(span.stop - span.start for span in found) <= 9
    assert sum(span.stop - span.start for span in found) == session.stats().late_tagged
    assert {span.region for span in found} == {Region.KEY_DECISION}
    assert all(not span.is_forgotten and span.text for span in found)
