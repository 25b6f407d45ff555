"""Text features of a reply while it is being written."""

from __future__ import annotations

import numpy as np
import pytest

from memdecay.classifier.text import read_text
from memdecay.runtime.reply_text import TOKENS_BETWEEN_LOOKS, ReplyText
from tests.tiny import CHATML, tiny_tokenizer

QUESTION = [{"role": "user", "content": "Which files are there?"}]


def rows_of(text: str) -> np.ndarray:
    read = read_text([*QUESTION, {"role": "assistant", "content": text}])
    return read.rows[read.first_rows[1] :]


def ids_of(text: str) -> list[int]:
    ids: list[int] = tiny_tokenizer(CHATML)(text, add_special_tokens=False)["input_ids"]
    return ids


def features_of(text: str) -> list[np.ndarray]:
    reply, ids = ReplyText(tiny_tokenizer(CHATML)), ids_of(text)
    return [reply.newest(QUESTION, ids[: end + 1]) for end in range(len(ids))]


def test_the_first_token_has_the_features_of_what_is_written_so_far() -> None:
    first = features_of("Let me look.")[0]
    start = tiny_tokenizer(CHATML).decode(ids_of("Let me look.")[:1])
    np.testing.assert_array_equal(first, rows_of(start)[-1])


def test_a_look_sees_the_text_so_far() -> None:
    text = "I look at the files of the folder first and then I will answer."
    ids = ids_of(text)
    assert len(ids) > TOKENS_BETWEEN_LOOKS
    so_far = tiny_tokenizer(CHATML).decode(ids[: TOKENS_BETWEEN_LOOKS + 1])
    found = features_of(text)[TOKENS_BETWEEN_LOOKS]
    np.testing.assert_array_equal(found, rows_of(so_far)[-1])


def test_tokens_between_looks_have_the_features_of_the_one_before() -> None:
    features = features_of("I look at the files of the folder.")
    np.testing.assert_array_equal(features[1], features[0])


def test_a_new_line_is_looked_at_at_once() -> None:
    features = features_of("One\n```bash\nls\n")
    distinct = {row.tobytes() for row in features}
    assert len(distinct) >= 3


def test_another_reply_begins_anew() -> None:
    reply, ids = ReplyText(tiny_tokenizer(CHATML)), ids_of("I look at the files of the folder.")
    for end in range(len(ids)):
        reply.newest(QUESTION, ids[: end + 1])
    again = reply.newest(QUESTION, ids[:1])
    np.testing.assert_array_equal(again, features_of("I")[0])


@pytest.mark.parametrize("token_id", [0, 1])
def test_a_reply_of_control_tokens_has_no_text(token_id: int) -> None:
    assert not ReplyText(tiny_tokenizer(CHATML)).newest(QUESTION, [token_id]).any()
