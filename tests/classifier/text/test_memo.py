from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Event
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memdecay.classifier.text import TextMemo, TextReader, read_text, reader_behind
from memdecay.classifier.text import conversation as conversation_module

MESSAGES = st.lists(
    st.fixed_dictionaries(
        {
            "role": st.sampled_from(["system", "user", "assistant", "tool"]),
            "content": st.sampled_from(["Find it.", "Error: no file", "id: A-17\nid: B", "I do."]),
        }
    ),
    min_size=1,
    max_size=6,
)


def same(messages: Sequence[Mapping[str, Any]], memo: TextMemo, owner: str = "") -> bool:
    told, read = memo.read(messages, owner), read_text(messages)
    return (
        np.array_equal(told.rows, read.rows)
        and told.first_rows == read.first_rows
        and all(map(np.array_equal, told.starts, read.starts))
    )


@given(conversations=st.lists(MESSAGES, max_size=6), size=st.integers(1, 3))
def test_a_memo_tells_what_reading_anew_tells(
    conversations: list[list[dict[str, Any]]], size: int
) -> None:
    memo = TextMemo(size)
    for messages in conversations:
        for end in range(1, len(messages) + 1):
            assert same(messages[:end], memo)
            peeked = memo.reader(messages[:end]).peek({"role": "user", "content": "A-17"})
            fresh = reader_behind(messages[:end]).peek({"role": "user", "content": "A-17"})
            assert np.array_equal(peeked.rows, fresh.rows)


def count_reads(monkeypatch: pytest.MonkeyPatch) -> list[Mapping[str, Any]]:
    reads: list[Mapping[str, Any]] = []
    read = TextReader.read

    def counted(self: TextReader, message: Mapping[str, Any]) -> Any:
        reads.append(message)
        return read(self, message)

    monkeypatch.setattr(conversation_module.TextReader, "read", counted)
    return reads


def say(count: int, what: str = "a") -> list[dict[str, str]]:
    return [{"role": "user", "content": f"{what}{index}"} for index in range(count)]


def test_only_what_is_new_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    memo, reads = TextMemo(2), count_reads(monkeypatch)
    memo.read(say(5))
    memo.read(say(7))
    memo.reader(say(7))
    assert [message["content"] for message in reads] == [f"a{i}" for i in range(7)]


def test_nobody_is_faster_for_what_others_have_read(monkeypatch: pytest.MonkeyPatch) -> None:
    memo, reads = TextMemo(4), count_reads(monkeypatch)
    memo.read(say(5), "alice")
    memo.read(say(5), "bob")
    assert len(reads) == 10


def test_only_the_conversations_read_last_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    memo, reads = TextMemo(2), count_reads(monkeypatch)
    for what in "abc":
        memo.read(say(3, what))
    memo.read(say(4, "b"))
    assert len(reads) == 10
    memo.read(say(4, "a"))
    assert len(reads) == 14


def test_a_reader_of_ones_own_changes_nothing() -> None:
    memo = TextMemo(1)
    memo.read(say(3))
    memo.reader(say(3)).read({"role": "user", "content": "id: A-17"})
    assert same(say(4), memo)


def test_what_cannot_be_read_leaves_nothing_behind() -> None:
    memo = TextMemo(2)
    memo.read(say(3))
    with pytest.raises(AttributeError):
        memo.read([*say(3), None])  # type: ignore[list-item]
    assert same(say(4), memo)


def test_a_memo_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="max_conversations must be 1 or more"):
        TextMemo(0)


def test_a_long_reading_keeps_no_other_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    memo, begun, may_end = TextMemo(4), Event(), Event()
    read = TextReader.read

    def slow(self: TextReader, message: Mapping[str, Any]) -> Any:
        if message["content"] == "slow":
            begun.set()
            assert may_end.wait(30)
        return read(self, message)

    monkeypatch.setattr(conversation_module.TextReader, "read", slow)
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(memo.read, [{"role": "user", "content": "slow"}])
        assert begun.wait(30)
        try:
            other = pool.submit(memo.read, say(2)).result(timeout=30)
        finally:
            may_end.set()
        assert len(other.starts) == 2
        assert len(first.result(timeout=30).starts) == 1
