"""JSON that is cut off or broken: read as far as it goes."""

from __future__ import annotations

import json
import re
from typing import Any

# Control characters inside strings are allowed: many loggers write raw tabs.
DECODER = json.JSONDecoder(strict=False)
_TOKEN = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"|[{}\[\],:]|[^\s{}\[\],:"]+|"', re.DOTALL)
_CLOSER = {"{": "}", "[": "]"}
_NUMBER = r"-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][-+]?\d+)?"
# A string, a number or a literal as `_TOKEN` finds it, unless it is cut off.
_SCALAR = re.compile(rf'".|(?:{_NUMBER}|true|false|null|NaN|-?Infinity)$', re.DOTALL)


def parse_json(text: str, decoder: json.JSONDecoder = DECODER) -> Any:
    """Parse one JSON value.

    Raises:
        ValueError: If ``text`` is no JSON or is nested too deeply.
    """
    try:
        return decoder.decode(text)
    except RecursionError:
        raise ValueError("JSON nested too deeply") from None


def parse_values(text: str, *, keep_open: bool = False) -> tuple[list[Any], int]:
    """Parse the JSON values that follow each other in ``text``, the last as far as it goes.

    Args:
        text: The text.
        keep_open: As in `close_json`.

    Returns:
        The values, and the number of characters at the end that could not be used (0 if all
        could). No values if ``text`` does not start with JSON.
    """
    values: list[Any] = []
    position = 0
    while (position := _skip_space(text, position)) < len(text):
        try:
            value, position = DECODER.raw_decode(text, position)
        except json.JSONDecodeError as error:
            value, used = close_json(text[position : error.pos], keep_open=keep_open)
            if value:
                values.append(value)
                position += used
            return values, len(text) - position
        except (ValueError, RecursionError):
            return values, len(text) - position
        values.append(value)
    return values, 0


def close_json(text: str, *, keep_open: bool = False) -> tuple[Any, int]:
    """Close the brackets of a JSON text that is cut off.

    Args:
        text: The text.
        keep_open: Whether to keep objects and lists of which nothing is complete.

    Returns:
        The value and the characters of ``text`` in it; None and 0 if nothing is complete.
    """
    stack: list[str] = []
    safe_end = safe_depth = 0
    after_colon = False
    for match in _TOKEN.finditer(text):
        token = match.group()
        if token in ",:":
            after_colon = token == ":"
            continue
        if token in "{[":
            stack.append(token)
            after_colon = False
            if not keep_open:
                continue
        elif token in "}]":
            if not stack or _CLOSER[stack[-1]] != token:
                break
            stack.pop()
        elif not stack or (stack[-1] == "{" and not after_colon):
            continue  # A key, or text outside of any bracket.
        elif not _SCALAR.match(token):
            break  # It is cut off.
        after_colon = False
        # Until the next such place the stack only grows, so its depth says what to close.
        safe_end, safe_depth = match.end(), len(stack)
    closed = text[:safe_end] + "".join(_CLOSER[token] for token in reversed(stack[:safe_depth]))
    try:
        return DECODER.decode(closed), safe_end
    except (ValueError, RecursionError):
        return None, 0


def _skip_space(text: str, position: int) -> int:
    while position < len(text) and text[position].isspace():
        position += 1
    return position
