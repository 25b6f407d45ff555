"""Text handed on token by token."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from memdecay.runtime.text_stream import TextStream, decode_text
from tests.tiny import tiny_tokenizer


@settings(deadline=None, max_examples=60)
@given(st.text(max_size=30))
def test_the_pieces_are_the_whole_text(text: str) -> None:
    tokenizer = tiny_tokenizer()
    ids = tokenizer(text, add_special_tokens=False)["input_ids"]
    pieces: list[str] = []
    stream = TextStream(tokenizer, pieces.append)
    for stop in range(1, len(ids) + 1):
        stream.update(ids[:stop])
    stream.finish(decode_text(tokenizer, ids))
    assert "".join(pieces) == decode_text(tokenizer, ids)
    assert all(pieces)


def test_a_character_of_several_tokens_waits_for_its_last() -> None:
    tokenizer = tiny_tokenizer()
    ids = tokenizer("a😀b", add_special_tokens=False)["input_ids"]
    assert len(ids) == 6
    pieces: list[str] = []
    stream = TextStream(tokenizer, pieces.append)
    for stop in range(1, 7):
        stream.update(ids[:stop])
    assert pieces == ["a", "😀", "b"]


def test_a_character_that_is_never_finished_comes_at_the_end() -> None:
    tokenizer = tiny_tokenizer()
    ids = tokenizer("a😀", add_special_tokens=False)["input_ids"][:3]
    pieces: list[str] = []
    stream = TextStream(tokenizer, pieces.append)
    stream.update(ids)
    assert pieces == []
    stream.finish(decode_text(tokenizer, ids))
    assert pieces == ["a\N{REPLACEMENT CHARACTER}"]


def test_control_tokens_are_left_out_and_spaces_stay() -> None:
    tokenizer = tiny_tokenizer()
    ids = tokenizer("Hello , world <|im_end|>", add_special_tokens=False)["input_ids"]
    assert decode_text(tokenizer, ids) == "Hello , world "
