from __future__ import annotations

import random
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memdecay.data.generator.wording import Wording


def make_wording(seed: int = 0) -> Wording:
    return Wording(random.Random(seed))


def test_alternatives_nest_and_may_be_empty() -> None:
    wording = make_wording()

    texts = {wording("{a|b{c|}}{|!}") for _ in range(200)}

    assert texts == {"a", "bc", "b", "a!", "bc!", "b!"}


def test_values_are_put_in_as_they_are() -> None:
    assert make_wording()("{Order|Order} {id}", id="{x|y} {z}") == "Order {x|y} {z}"


def test_missing_value_is_refused() -> None:
    with pytest.raises(KeyError, match="name"):
        make_wording()("Hello {name}")


@given(st.integers(0, 9), st.integers(0, 5), st.integers(0, 5))
def test_some_keeps_the_order_and_the_bounds(seed: int, low: int, more: int) -> None:
    chosen = make_wording(seed).some(string.ascii_lowercase, low, low + more)

    assert low <= len(chosen) <= low + more
    assert chosen == sorted(set(chosen))


def test_shuffled_keeps_every_option() -> None:
    assert sorted(make_wording().shuffled([3, 1, 2])) == [1, 2, 3]


def test_code_follows_its_pattern() -> None:
    code = make_wording().code("W-##@~")

    assert code.startswith("W-")
    assert code[2:4].isdigit()
    assert code[4].isupper()
    assert code[5] in "0123456789abcdef"
