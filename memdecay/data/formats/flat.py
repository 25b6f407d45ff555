"""Attributes with dotted names and numbers, such as ``llm.input_messages.0.message.role``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_MAX_PARTS = 40


def otlp_value(value: object) -> Any:
    """Return the plain value of an OTLP ``AnyValue``; other values as they are."""
    if not isinstance(value, Mapping):
        return value
    for key in ("stringValue", "boolValue", "intValue", "doubleValue", "bytesValue"):
        if key in value:
            return value[key]
    for key in ("arrayValue", "kvlistValue"):
        values = value[key].get("values") if isinstance(value.get(key), Mapping) else None
        if isinstance(values, list):
            if key == "arrayValue":
                return [otlp_value(item) for item in values]
            return attributes_of(values)
    return value


def attributes_of(attributes: object) -> dict[str, Any]:
    """Return attributes as a dict, from a mapping or OTLP's list of keys and values."""
    if isinstance(attributes, Mapping):
        return {str(key): otlp_value(value) for key, value in attributes.items()}
    if not isinstance(attributes, list):
        return {}
    pairs = (item for item in attributes if isinstance(item, Mapping))
    return {str(item["key"]): otlp_value(item.get("value")) for item in pairs if "key" in item}


def nested(attributes: Mapping[str, Any], prefix: str) -> Any:
    """Build the nested value below ``prefix`` from dotted names.

    Mappings whose keys are all numbers become lists in their order; None if nothing is there.

    >>> nested({"m.0.role": "user", "m.0.text": "hi"}, "m")
    [{'role': 'user', 'text': 'hi'}]
    """
    if prefix in attributes:
        return attributes[prefix]
    tree: dict[str, Any] = {}
    for name, value in attributes.items():
        parts = name.removeprefix(f"{prefix}.").split(".")
        if name.startswith(f"{prefix}.") and len(parts) <= _MAX_PARTS:
            _put(tree, parts, value)
    return _listed(tree) if tree else None


def _put(tree: dict[str, Any], parts: list[str], value: Any) -> None:
    for part in parts[:-1]:
        inner = tree.get(part)
        if not isinstance(inner, dict):
            inner = tree[part] = {}
        tree = inner
    tree.setdefault(parts[-1], value)


def _listed(tree: Any) -> Any:
    if not isinstance(tree, dict):
        return tree
    values = {key: _listed(value) for key, value in tree.items()}
    if values and all(key.isascii() and key.isdigit() and len(key) < 9 for key in values):
        return [values[key] for key in sorted(values, key=int)]
    return values
