import json
from dataclasses import dataclass

import pytest

from memdecay.classifier.plain_data import from_plain, plain_value, short


@dataclass(frozen=True)
class Sizes:
    width: int
    share: float = 0.5
    names: tuple[str, ...] = ()


def test_object_becomes_the_dataclass_with_lists_as_tuples() -> None:
    data = json.loads('{"width": 3, "share": 1, "names": ["a"]}')
    found = from_plain(Sizes, data)
    assert found == Sizes(3, 1.0, ("a",))
    assert isinstance(found.share, float)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ([], "expected an object, got"),
        ({}, "'width' is missing"),
        ({"width": 1, "size": 2}, "unknown key 'size', expected width, share, names"),
        ({"width": True}, "width must be a whole number, got True"),
        ({"width": 1.0}, "width must be a whole number, got 1.0"),
        ({"width": 1, "share": "half"}, "share must be a finite number, got 'half'"),
        ({"width": 1, "share": float("nan")}, "share must be a finite number, got nan"),
        ({"width": 1, "share": 10**400}, "share must be a finite number, got 1000"),
        ({"width": 1, "names": "ab"}, "names must be a list, got 'ab'"),
        ({"width": 1, "names": [1]}, "each of names must be a text, got 1"),
    ],
)
def test_what_does_not_fit_is_named(data: object, message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        from_plain(Sizes, data)


def test_truth_values_are_no_numbers() -> None:
    assert plain_value(bool, True, "it") is True
    with pytest.raises(TypeError, match="true or false"):
        plain_value(bool, 1, "it")


def test_long_values_are_cut_for_messages() -> None:
    assert len(short("x" * 1000)) < 70
