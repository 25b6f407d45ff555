from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memdecay.classifier.regions import Region
from memdecay.data.generator import long_session

SEEDS = st.integers(0, 2**32)
FACTS = (
    r"/srv/\S+?(?= and)",
    r"fix/[a-z]+-[a-z]+-\d\d",
    r"(?<=port )8\d{3}",
    r"W-[A-Z]{2}\d{5}",
    r"GC-\d{4}-[A-Z]{2}",
    r"OPS-\d{4}",
    r"rel_[a-z]{2}\d\d",
    r"\S+@\S+\.example",
)


@settings(max_examples=15, deadline=None)
@given(SEEDS, st.integers(1000, 30_000))
def test_session_reaches_its_length_and_little_more(seed: int, num_characters: int) -> None:
    trace = long_session(seed, num_characters)

    assert num_characters <= trace.num_characters < max(num_characters, 5000) + 9000


@settings(max_examples=15, deadline=None)
@given(SEEDS)
def test_facts_of_the_first_turn_stand_in_the_last(seed: int) -> None:
    trace = long_session(seed, 16_000)
    first, last = trace.messages[1].content, trace.messages[-1].content

    for pattern in FACTS:
        match = re.search(pattern, first)
        assert match is not None, pattern
        assert match[0].strip("()") in last


def test_facts_are_used_between_the_first_turn_and_the_last() -> None:
    trace = long_session(0, 30_000)
    ticket = re.search(r"OPS-\d{4}", trace.messages[1].content)
    assert ticket is not None
    late = trace.messages[len(trace.messages) // 2 : -1]

    assert any(ticket[0] in message.content for message in late if message.role == "assistant")


def test_facts_are_key_decisions() -> None:
    trace = long_session(4, 9000)
    start = trace.messages[1].content.index("Please note")

    regions = {s.region for s in trace.spans if s.message == 1 and s.start >= start}

    assert regions == {Region.KEY_DECISION}


def test_calls_stand_in_the_text_for_templates_without_tools() -> None:
    assert not any(message.tool_calls for message in long_session(2, 9000).messages)


def test_same_seed_gives_the_same_session() -> None:
    assert long_session(3, 9000) == long_session(3, 9000)
    assert long_session(3, 9000) != long_session(4, 9000)


def test_too_short_session_is_refused() -> None:
    with pytest.raises(ValueError, match="num_characters must be 1000 or above, got 10"):
        long_session(0, 10)
