"""Text features of messages, and how they come to the tokens."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memdecay.classifier.regions import NUM_REGIONS
from memdecay.classifier.rendering import render
from memdecay.classifier.rules import rule_votes
from memdecay.classifier.text import (
    NUM_TEXT_FEATURES,
    RULE_SCORES_START,
    TEXT_FEATURE_NAMES,
    TextReader,
    read_text,
)
from memdecay.classifier.tokenization import tokenize
from tests.tiny import CHATML, tiny_tokenizer

CALL = {"function": {"name": "find_order", "arguments": '{"order_id": "W17"}'}}
MESSAGES: list[dict[str, Any]] = [
    {"role": "tool", "content": "booting\nready"},
    {"role": "system", "content": "You are a shop's agent.\nNever guess."},
    {"role": "user", "content": "Hello! Where is my order W17?"},
    {"role": "assistant", "content": "I look it up.", "tool_calls": [CALL]},
    {"role": "tool", "content": '{"order_id": "W17",\n"status": "shipped"}\n' + "- row\n" * 90},
    {"role": "assistant", "content": "It was shipped.\nAnything else?"},
    {"role": "user", "content": "No, thanks."},
]
IS_CALL = TEXT_FEATURE_NAMES.index("is_structured_call")
ASKED = TEXT_FEATURE_NAMES.index("asked_any")
REPEATED = TEXT_FEATURE_NAMES.index("is_repeated")


def rows_of(messages: list[dict[str, Any]], index: int) -> np.ndarray:
    text = read_text(messages)
    first = text.first_rows[index]
    return text.rows[first : first + len(text.starts[index])]


def test_every_feature_has_a_name_of_its_own() -> None:
    assert len(set(TEXT_FEATURE_NAMES)) == NUM_TEXT_FEATURES == read_text(MESSAGES).rows.shape[1]


def test_rule_scores_are_those_of_the_rule_tagger() -> None:
    votes = rule_votes(MESSAGES, lookahead=False)
    expected = votes.votes.sum(axis=0)
    found = read_text(MESSAGES).rows[2:, RULE_SCORES_START : RULE_SCORES_START + NUM_REGIONS]
    np.testing.assert_allclose(found, expected, atol=2e-3)


@settings(deadline=None, max_examples=30)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["system", "user", "assistant", "tool", ""]),
            st.text("aT1:\n{}<>` ", max_size=30),
        ),
        min_size=2,
        max_size=5,
    ),
    st.integers(1, 4),
)
def test_messages_keep_their_features_when_others_follow(
    pairs: list[tuple[str, str]], num_first: int
) -> None:
    messages = [{"role": role, "content": content} for role, content in pairs]
    whole, part = read_text(messages), read_text(messages[:num_first])
    np.testing.assert_array_equal(whole.rows[: len(part.rows)], part.rows)


def test_pieces_with_the_calls_words_and_repeated_pieces_are_marked() -> None:
    rows = rows_of(MESSAGES, 4)
    assert rows[0, ASKED] == 1.0
    assert not rows[2:, ASKED].any()
    assert rows[2:, REPEATED].tolist() == [0.0, *[1.0] * 89]


def test_tokens_have_the_features_of_the_piece_that_holds_them() -> None:
    tokenizer = tiny_tokenizer(CHATML)
    rendered = render(MESSAGES, tokenizer)
    tokens = tokenize(rendered, tokenizer)
    text, rows = tokens.text_rows(rendered)
    covered = np.zeros(len(rows), np.bool_)
    for message in rendered.messages:
        starts = text.starts[message.index]
        shift = message.content_start - message.content_skip
        for piece, start in enumerate(starts):
            end = starts[piece + 1] if piece + 1 < len(starts) else len(rendered.text)
            low, high = shift + start, min(shift + end, message.content_end)
            middles = tokens.offsets.sum(axis=1) // 2
            inside = (middles >= low) & (middles < high)
            assert (rows[inside] == text.first_rows[message.index] + piece).all()
            covered |= inside
    is_call = text.rows[rows, IS_CALL] == 1
    assert is_call.any()
    calls = rendered.messages[3]
    starts = tokens.offsets[is_call, 0]
    assert ((starts >= calls.calls_start) & (starts < calls.calls_end)).all()
    assert not text.rows[rows[~covered & ~is_call]].any()


def test_text_before_the_first_message_and_an_open_reply_are_template() -> None:
    tokenizer = tiny_tokenizer(CHATML)
    rendered = render(MESSAGES[2:3], tokenizer, add_generation_prompt=True)
    tokens = tokenize(rendered, tokenizer)
    is_prompt = tokens.message_index == 1
    assert is_prompt.any()
    assert not tokens.text_features()[is_prompt].any()


def test_peeking_at_a_message_leaves_the_reader_where_it_is() -> None:
    reader, other = TextReader(), TextReader()
    for message in MESSAGES[:3]:
        reader.read(message)
        other.read(message)
    for end in (1, 5, 13):
        reader.peek({"role": "assistant", "content": MESSAGES[3]["content"][:end]})
    for message in MESSAGES[3:]:
        seen, expected = reader.peek(message), other.read(message)
        np.testing.assert_array_equal(seen.rows, expected.rows)
        np.testing.assert_array_equal(reader.read(message).rows, expected.rows)


@pytest.mark.parametrize("messages", [[], [{"role": "user", "content": ""}]])
def test_no_text_gives_the_fixed_rows_only(messages: list[dict[str, Any]]) -> None:
    assert len(read_text(messages).rows) == 2
