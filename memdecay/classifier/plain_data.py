"""Dataclasses out of plain data from JSON, whose every type is checked: people edit such files."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

_T = TypeVar("_T")
_NAMES = {int: "a whole number", float: "a finite number", str: "a text", bool: "true or false"}


def from_plain(kind: type[_T], value: object) -> _T:
    """Build a dataclass whose fields are numbers, texts, truth values, or tuples of one of them.

    Args:
        kind: The dataclass.
        value: What JSON gave: an object with the fields' names.

    Raises:
        TypeError: The value is no object, or a field's value has another type.
        ValueError: A field is unknown or missing, a number is not finite, or the dataclass refuses.
    """
    data = mapping(value)
    hints = get_type_hints(kind)
    fields = {field.name: field for field in dataclasses.fields(kind)}  # type: ignore[arg-type]
    if unknown := sorted(str(name) for name in set(data) - set(fields)):
        raise ValueError(f"unknown key {unknown[0]!r}, expected {', '.join(fields)}")
    for name, field in fields.items():
        if name not in data and field.default is dataclasses.MISSING:
            raise ValueError(f"{name!r} is missing")
    return kind(**{name: plain_value(hints[name], item, name) for name, item in data.items()})


def plain_value(hint: Any, value: object, name: str) -> Any:
    """Return a value that has a type, a whole number as float where one is asked for.

    Args:
        hint: int, float, str, bool, or a tuple of any number of one of them.
        value: What JSON gave.
        name: What the value is called in messages.

    Raises:
        TypeError: It has another type.
        ValueError: It is a number that is not finite.
    """
    if get_origin(hint) is tuple:
        if not isinstance(value, list | tuple):
            raise TypeError(f"{name} must be a list, got {short(value)}")
        return tuple(plain_value(get_args(hint)[0], item, f"each of {name}") for item in value)
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    fits = is_number if hint is float else type(value) is hint
    if not fits:
        raise TypeError(f"{name} must be {_NAMES[hint]}, got {short(value)}")
    return _finite(value, name) if hint is float else value


def mapping(value: object) -> Mapping[str, Any]:
    """Return a value that is an object of JSON.

    Raises:
        TypeError: It is none.
    """
    if not isinstance(value, Mapping):
        raise TypeError(f"expected an object, got {short(value)}")
    return value


def short(value: object, max_characters: int = 60) -> str:
    """Return a value for a message, cut to a few characters."""
    text = repr(value)
    return text if len(text) <= max_characters else f"{text[:max_characters]}..."


def _finite(value: Any, name: str) -> float:
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise ValueError(f"{name} must be {_NAMES[float]}, got {short(value)}")
    return number
