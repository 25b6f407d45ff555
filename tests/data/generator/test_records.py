from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memdecay.classifier.regions import Region
from memdecay.data.generator.builder import context, finding
from memdecay.data.generator.records import json_pieces, line_pieces, table_lines

RECORDS = st.dictionaries(st.text(max_size=9), st.lists(st.integers(), max_size=30), max_size=9)


@given(RECORDS, st.booleans())
def test_json_pieces_join_to_the_record(record: dict[str, list[int]], is_indented: bool) -> None:
    text = "".join(piece.text for piece in json_pieces(record, set(), is_indented=is_indented))

    assert text == json.dumps(record, indent=2 if is_indented else None)


def test_wanted_fields_of_a_long_record_are_findings() -> None:
    pieces = json_pieces({"id": 7, "bulk": "x" * 300}, {"id"})

    assert [piece.region for piece in pieces] == [Region.TOOL_SUMMARY, Region.ORDINARY_CONTEXT]
    assert pieces[0].text == '{"id": 7, '


def test_short_record_is_a_finding_as_a_whole() -> None:
    assert json_pieces({"id": 7, "state": "ok"}, {"id"}) == (finding('{"id": 7, "state": "ok"}'),)


def test_only_wanted_lines_are_findings() -> None:
    pieces = line_pieces(["a", "b", "c"], {1}, has_final_newline=False)

    assert pieces == (context("a\n"), finding("b\n"), context("c"))


@pytest.mark.parametrize(
    ("style", "expected"),
    [
        ("csv", ["k,n", "tea,12"]),
        ("tuple", ["('tea', 12)"]),
        ("aligned", ["k    n", "tea  12"]),
        ("pipe", ["| k   | n  |", "|-----|----|", "| tea | 12 |"]),
        ("psql", [" k   | n ", "----+---", " tea | 12"]),
    ],
)
def test_table_styles(style: str, expected: list[str]) -> None:
    lines = table_lines(["k", "n"], [("tea", 12)], style)

    assert [line.rstrip() for line in lines] == [line.rstrip() for line in expected]


def test_unknown_table_style_is_refused() -> None:
    with pytest.raises(ValueError, match="unknown table style 'html'"):
        table_lines(["k"], [(1,)], "html")
