from __future__ import annotations

import sqlite3
from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memdecay.classifier.errors import StorageError
from memdecay.data.spill import Sightings, TemporaryDatabase, TextLists

KEYS = st.lists(st.sampled_from([b"", b"a", b"b", b"\0", b"\xff"]), max_size=12)


@given(KEYS)
def test_sightings_are_those_of_a_dictionary(keys: list[bytes]) -> None:
    firsts: dict[bytes, int] = {}
    with TemporaryDatabase() as database:
        seen = database.sightings("keys")
        for number, key in enumerate(keys, start=1):
            firsts.setdefault(key, number)
            seen.add((key,), number)
        assert {key: seen.first(key) for key in firsts} == firsts
        assert seen.firsts([b"never", *firsts]) == list(firsts.values())
        assert seen.first(b"never") == 0
        often = {firsts[key]: count for key, count in Counter(keys).items() if count >= 2}
        assert list(seen.often(2)) == sorted(often.items())


@given(st.lists(st.tuples(st.text("ab\ud800", max_size=2), st.text("x\0\ud800", max_size=3))))
def test_texts_come_back_in_their_order(pairs: list[tuple[str, str]]) -> None:
    with TemporaryDatabase() as database:
        lists = database.lists("texts")
        for key, text in pairs:
            lists.add(key, text)
        for key, _ in pairs:
            assert lists.get(key) == [text for other, text in pairs if other == key]


def test_tables_are_apart() -> None:
    with TemporaryDatabase() as database:
        one, two = database.sightings("one"), database.sightings("two")
        one.add((b"key",), 5)
        assert (one.first(b"key"), two.first(b"key")) == (5, 0)


@pytest.mark.parametrize("kind", [Sightings, TextLists])
def test_a_full_disk_is_an_error_that_says_what_to_do(kind: type) -> None:
    def fill(table: Any) -> None:
        for number in range(1, 1_000):
            key = str(number) * 20
            table.add((key.encode(),), number) if kind is Sightings else table.add(key, key)

    connection = sqlite3.connect("")
    connection.execute("PRAGMA max_page_count = 4")
    try:
        table = kind(connection, "keys")
        with pytest.raises(StorageError, match=r"full.*set TMPDIR"):
            fill(table)
    finally:
        connection.close()
