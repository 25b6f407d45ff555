"""Reading values of any type from foreign JSON without ever failing on their shape."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

MAX_DEPTH = 60


def as_map(value: object) -> Mapping[str, Any]:
    """Return ``value`` if it is a JSON object, else an empty one."""
    return value if isinstance(value, dict) else {}


def as_list(value: object) -> list[Any]:
    """Return ``value`` if it is a list, else an empty one."""
    return value if isinstance(value, list) else []


def as_str(value: object) -> str:
    """Return ``value`` if it is a string, else an empty one."""
    return value if isinstance(value, str) else ""


def maps(value: object) -> Iterator[Mapping[str, Any]]:
    """Yield the objects of a list; nothing for any other type."""
    return (item for item in as_list(value) if isinstance(item, dict))


def first_str(mapping: Mapping[str, Any], keys: Iterable[str]) -> str:
    """Return the first non-empty string among ``keys``; numbers count as text."""
    for key in keys:
        value = mapping.get(key)
        if isinstance(value, int | float) and not isinstance(value, bool):
            return str(value)
        if isinstance(value, str) and value:
            return value
    return ""


def unpack_json(value: object) -> Any:
    """Return the value of a string that holds a JSON object or list; other values as they are."""
    if not isinstance(value, str) or value.lstrip()[:1] not in ("{", "["):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return value


def dump_json(value: object) -> str:
    """Write ``value`` as JSON text; what JSON cannot hold becomes its ``str``."""
    try:
        return json.dumps(value, ensure_ascii=False, default=str)
    except (ValueError, TypeError, RecursionError):
        return "null"
