from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from memdecay.data.formats.json_stream import JsonStream
from memdecay.data.formats.partial import parse_values
from memdecay.data.formats.report import Notes
from tests.data.peak import count_and_peak

_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**20), 10**20)
    | st.floats(allow_nan=False)
    | st.text('ab"\\[{}],: \n\t\ud83d\U0001f600\ud800', max_size=8),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text("ab", max_size=2), inner, max_size=4)
    ),
    max_leaves=12,
)
_INDENTS = st.sampled_from([None, 1, 2, "\t"])
_PIECES = st.sampled_from([1, 2, 3, 7, 10_000])


def _pieces(text: str, size: int) -> Iterator[str]:
    return (text[start : start + size] for start in range(0, len(text), size))


def _elements(text: str, size: int = 5) -> tuple[list[Any], Notes]:
    notes = Notes()
    stream = JsonStream(_pieces(text, size), notes)
    assert stream.peek() == "["
    found = list(stream.elements())
    assert [number for number, _ in found] == sorted({number for number, _ in found})
    return [value for _, value in found], notes


def _records(num: int = 5) -> list[dict[str, Any]]:
    def turn(text: str) -> dict[str, Any]:
        calls = [{"id": f"{text}1", "type": "function"}, {"id": f"{text}2", "type": "function"}]
        return {"role": "user", "content": f'a "{text}", {{"id": 5}}', "calls": calls}

    return [
        {"id": number, "messages": [turn(f"{number}{side}") for side in "ab"], "ok": True}
        for number in range(num)
    ]


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(_VALUES, max_size=5), _INDENTS, st.booleans(), _PIECES)
def test_a_list_gives_what_reading_it_whole_gives(
    values: list[Any], indent: Any, is_ascii: bool, size: int
) -> None:
    text = json.dumps(values, indent=indent, ensure_ascii=is_ascii)

    found, notes = _elements(f"{text}\n", size)

    assert found == json.loads(text)
    assert not notes.repaired
    assert not notes.skipped


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(_VALUES, min_size=1, max_size=4), _INDENTS, st.data(), _PIECES)
def test_a_list_cut_off_gives_what_reading_the_rest_whole_gives(
    values: list[Any], indent: Any, data: st.DataObject, size: int
) -> None:
    text = json.dumps(values, indent=indent)
    cut = text[: data.draw(st.integers(1, len(text) - 1))]
    whole, unused = parse_values(cut)

    found, notes = _elements(cut, size)

    assert found == (whole[0] if whole else [])
    assert "broken JSON read up to the break" in notes.repaired
    lost = notes.skipped.get("character after the break in the JSON")
    assert (lost.count if lost else 0) == unused


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.dictionaries(st.sampled_from("abcd"), _VALUES, max_size=4), _INDENTS, _PIECES)
def test_the_members_of_an_object_give_the_object(
    record: dict[str, Any], indent: Any, size: int
) -> None:
    text = json.dumps(record, indent=indent)
    stream = JsonStream(_pieces(text, size), Notes())
    stream.peek()

    found: dict[str, Any] = {}
    for key, number, value in stream.members(("a", "b")):
        if number:
            assert key in ("a", "b")
            found[key].append(value)
        else:
            found[key] = value

    assert found == json.loads(text)
    assert stream.peek() == ""


@pytest.mark.parametrize("indent", [None, 2])
@pytest.mark.parametrize(
    ("good", "bad"),
    [
        ('"role": "user"', '"role" "user"'),
        ('"type": "function"', '"type": function'),
        ('"role": "user"', '"role": "user'),
        ('"role": "user"', '"role": user"'),
        ('"ok": true', '"ok": tru'),
        ('"calls": [', '"calls": '),
        ('"ok": true', '"ok": true, '),
        ('"content"', "'content'"),
    ],
)
@pytest.mark.parametrize("place", [0, 2, 4])
def test_a_break_in_a_record_costs_no_other_record(
    indent: int | None, good: str, bad: str, place: int
) -> None:
    records = _records()
    texts = [json.dumps(record, indent=indent) for record in records]
    assert good in texts[place]
    texts[place] = texts[place].replace(good, bad, 1)

    found, notes = _elements(f"[{', '.join(texts)}]")

    others = [record for record in records if record["id"] != place]
    assert [record for record in found if record in others] == others
    # Of the first record's own keys nothing is known: calls in it may look like records.
    assert len(found) <= len(records) + (2 if place == 0 else 0)
    assert notes.repaired["broken JSON read up to the break"].where == f"item {place + 1}"


def test_what_comes_before_the_break_in_a_record_is_kept() -> None:
    text = json.dumps(_records(3)).replace('"1b2"', '"1b2', 1)

    found, _ = _elements(text)

    assert [record["id"] for record in found] == [0, 1, 2]
    assert [len(record["messages"]) for record in found] == [2, 2, 2]
    assert "ok" not in found[1]


def test_a_record_of_which_nothing_is_left_is_named() -> None:
    found, notes = _elements('[{"a": 1}, {"a" 2}, {"a": 3}]')

    assert found == [{"a": 1}, {"a": 3}]
    assert notes.skipped["record that is broken JSON"].where == "item 2"


def test_several_broken_records_cost_themselves() -> None:
    records = _records(9)
    texts = [json.dumps(record) for record in records]
    for place in (2, 3, 7):
        texts[place] = texts[place].replace('"role"', '"role', 1)

    found, _ = _elements(f"[{','.join(texts)}]")

    assert [record for record in found if record in records] == [
        record for place, record in enumerate(records) if place not in (2, 3, 7)
    ]


def test_a_record_nested_too_deeply_costs_itself() -> None:
    deep = '{"a": ' * 100_000 + "1" + "}" * 100_000

    found, notes = _elements(f'[{{"a": 1}}, {deep}, {{"a": 3}}]', 1_000)

    assert found[0] == {"a": 1}
    assert found[-1] == {"a": 3}
    assert notes.skipped["record that is JSON nested too deeply"].where == "item 2"


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ('[{"a": 1} {"a": 2}]', "comma missing between records"),
        ('[{"a": 1}, {"a": 2},]', "comma behind the last record"),
        ('[{"a": 1}, {"a": 2}', "broken JSON read up to the break"),
        ('[{"a": 1}, oops, {"a": 2}]', "broken JSON read up to the break"),
        ('[{"a": 1} oops, {"a": 2}]', "broken JSON read up to the break"),
    ],
)
def test_breaks_between_records_cost_no_record(text: str, what: str) -> None:
    found, notes = _elements(text)

    assert found == [{"a": 1}, {"a": 2}]
    assert what in notes.repaired


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.text('[]{},:"a1 \\\n', max_size=40), _PIECES)
def test_any_text_comes_to_an_end(text: str, size: int) -> None:
    for lists in ((), ("a",)):
        notes = Notes()
        stream = JsonStream(_pieces(text, size), notes)
        while sign := stream.peek():
            found: Iterator[Any] = stream.value()
            if sign == "[":
                found = stream.elements()
            elif sign == "{" and lists:
                found = stream.members(lists)
            assert len(list(found)) <= len(text)


def test_a_long_list_is_read_in_memory_for_a_part_of_it() -> None:
    record = json.dumps({"id": 1, "text": "x" * 4_000, "more": list(range(100))})
    num_records, broken = 2_000, record.replace('"text"', '"text', 1)

    def pieces() -> Iterator[str]:
        yield "["
        for number in range(num_records):
            yield f"{'' if number == 0 else ', '}{broken if number == 700 else record}"
        yield "]"

    count, peak = count_and_peak(JsonStream(pieces(), Notes()).elements())

    assert num_records - 1 <= count <= num_records
    assert peak < num_records * len(record) / 4
