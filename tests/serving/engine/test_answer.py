"""The text of an answer, piece by piece."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memdecay.runtime.text_stream import decode_text
from memdecay.serving.engine.turns.answer import Answer
from tests.tiny import tiny_tokenizer

TOKENIZER = tiny_tokenizer()


def ids_of(text: str) -> list[int]:
    return list(TOKENIZER(text, add_special_tokens=False)["input_ids"])


def say(answer: Answer, text: str) -> list[str]:
    pieces = []
    for token_id in ids_of(text):
        if answer.is_stopped:
            break
        pieces.append(answer.add(token_id))
    return [piece for piece in (*pieces, answer.finish()) if piece]


@given(st.text(max_size=60))
def test_pieces_add_up_to_the_whole_text(text: str) -> None:
    answer = Answer(TOKENIZER)
    pieces = say(answer, text)
    assert "".join(pieces) == answer.text == decode_text(TOKENIZER, ids_of(text))
    assert list(answer.token_ids) == ids_of(text)


def test_a_character_of_several_tokens_comes_whole() -> None:
    answer = Answer(TOKENIZER)
    assert len(ids_of("é👩")) > 2
    pieces = say(answer, "é👩")
    assert pieces == ["é", "👩"]


def test_an_unfinished_character_is_handed_on_at_the_end() -> None:
    answer = Answer(TOKENIZER)
    first, *_ = ids_of("👩")
    assert answer.add(first) == ""
    assert answer.finish() == "\N{REPLACEMENT CHARACTER}"


@given(st.text("abc", max_size=40), st.lists(st.text("abc", min_size=1, max_size=4), max_size=3))
def test_text_ends_before_the_first_stop_and_never_shows_a_part_of_it(
    text: str, stop: list[str]
) -> None:
    answer = Answer(TOKENIZER, stop)
    pieces = say(answer, text)
    # The independent reference: the shortest beginning that ends with a stop text.
    ends = [
        end - len(one)
        for end in range(1, len(text) + 1)
        for one in stop
        if text[:end].endswith(one)
    ]
    first_end = next(
        (end for end in range(1, len(text) + 1) if any(text[:end].endswith(s) for s in stop)), None
    )
    if first_end is None:
        assert answer.text == text
        assert not answer.is_stopped
    else:
        assert answer.is_stopped
        assert min(ends) <= len(answer.text) <= first_end
        assert not any(one in answer.text for one in stop)
    assert "".join(pieces) == answer.text
    assert answer.text.startswith(decode_text(TOKENIZER, answer.token_ids))


@pytest.mark.parametrize("stop", ["END", "gold END"])
def test_tokens_of_a_stop_text_are_no_part_of_the_answer(stop: str) -> None:
    answer = Answer(TOKENIZER, (stop,))
    say(answer, "the gold END of it")
    assert answer.text == "the gold END of it".partition(stop)[0]
    assert answer.text.startswith(decode_text(TOKENIZER, answer.token_ids))
    assert len(answer.token_ids) < len(ids_of("the gold END of it"))
