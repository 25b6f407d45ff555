"""The error of a tool's result, which several formats keep beside its text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from memdecay.data.formats.values import as_map, as_str, dump_json, first_str


def with_error(text: str, result: Mapping[str, Any]) -> str:
    """Put the error of a result before its text, unless the text tells of it already.

    Args:
        text: What the tool returned, perhaps nothing.
        result: The result; its ``error`` is a sentence, a mapping with ``message`` and perhaps
            ``type`` (Inspect's ``ToolCallError``, MCP's, JSON-RPC's), or other data.

    Returns:
        The text; where there is none, the error alone.
    """
    message = _message(result.get("error"))
    if not message or message in text:
        return text
    return f"Error: {message}\n{text}" if text.strip() else message


def error_fields(result: Mapping[str, Any]) -> dict[str, Any]:
    """Return ``is_error`` and the error's ``error_type``, each where the result has it."""
    error = result.get("error")
    marked = result.get("is_error") is True or result.get("isError") is True
    kind = first_str(as_map(error), ("type",))
    fields: dict[str, Any] = {"is_error": True} if marked or _message(error) else {}
    return fields | ({"error_type": kind} if kind else {})


def _message(error: object) -> str:
    known = as_str(error) or first_str(as_map(error), ("message", "content"))
    return known or (dump_json(error) if error and isinstance(error, Mapping | list) else "")
