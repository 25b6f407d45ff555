from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from memdecay.data.formats.partial import close_json, parse_json, parse_values

_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text('ab"\\[{:,', max_size=4),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text("ab", max_size=2), inner, max_size=4)
    ),
    max_leaves=12,
)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"a": [1, {"b": "x"}, {"c": "cut', {"a": [1, {"b": "x"}]}),
        ('[{"role": "user"}, {"ro', [{"role": "user"}]),
        ('{"a": "b", "c"', {"a": "b"}),
        ('["a]", ', ["a]"]),
        ("no json", None),
    ],
)
def test_cut_json_is_read_as_far_as_it_goes(text: str, value: object) -> None:
    assert close_json(text)[0] == value


def test_open_brackets_can_be_kept_to_recognise_a_format() -> None:
    text = '{"messages": [{"content": "a very long'

    assert close_json(text, keep_open=True)[0] == {"messages": [{}]}
    assert close_json(text)[0] is None


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(_JSON, st.integers(0, 200))
def test_every_cut_gives_json_or_nothing(value: Any, end: int) -> None:
    text = json.dumps([value])

    closed, used = close_json(text[:end])

    assert closed is None or isinstance(closed, list)
    assert used <= min(end, len(text))


def test_values_that_follow_each_other_are_all_read() -> None:
    assert parse_values('{"a": 1}\n{"b": 2} [3]') == ([{"a": 1}, {"b": 2}, [3]], 0)


def test_a_break_in_the_middle_keeps_what_came_before() -> None:
    values, unused = parse_values('[{"a": 1}, {"b": 2}, {"c" 3}, {"d": 4}]')

    assert values == [[{"a": 1}, {"b": 2}]]
    assert unused > 0


@pytest.mark.parametrize("text", ["", "{", "nope", "[" * 100_000, "1" * 10_000])
def test_what_is_no_json_raises_value_error(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse_json(text)
