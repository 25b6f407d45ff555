"""Shorter tool results: structure, keys, ids, numbers and errors stay, prose goes.

Pure functions of the text and the limit: the same result is compressed the same way in every turn,
so that the conversation's beginning stays as the cache has read it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

_MARK = "\N{HORIZONTAL ELLIPSIS}"
_SHORT_CHARACTERS = 64
_END_SHARE = 8
_MAX_DEPTH = 64
_ERROR = re.compile(
    r"error|exception|traceback|fail|fatal|panic|denied|refused|not found|warning|timed? ?out",
    re.IGNORECASE,
)
# What names a thing or counts it: anything with a digit, a key, a path, an address, CONSTANTS,
# snake_case and CamelCase names.
_DECISIVE = re.compile(
    r"""\d | ^[\w.\-"']+[:=] | [/\\@=_] | ^[A-Z]{2,}$ | [a-z][A-Z] | ^[\[\]{}()<>,;:]+$""",
    re.VERBOSE,
)


@dataclass(frozen=True, slots=True)
class CompressedResult:
    """A tool's result for the model.

    Attributes:
        text: What the model reads.
        is_cut: Whether anything is missing.
    """

    text: str
    is_cut: bool


def compress_tool_result(text: str, max_characters: int) -> CompressedResult:
    """Compress a tool's result that is longer than a limit.

    JSON stays JSON with the same keys, numbers and truth values; its long texts, and any other
    text, keep their beginning, their end, lines that speak of errors, and every word that names or
    counts something. ``…`` stands where words went, ``[… N lines]`` where lines did.

    The limit says from which length on a result is compressed. It is no promise: what has to stay
    stays, however much it is.

    Args:
        text: The result.
        max_characters: Its longest length that is left alone.

    Returns:
        The result as it is where it is short, or where compressing would not make it shorter.

    Raises:
        ValueError: ``max_characters`` is below 1.
    """
    if max_characters < 1:
        raise ValueError(f"max_characters must be 1 or more, got {max_characters}")
    if len(text) <= max_characters:
        return CompressedResult(text, is_cut=False)
    shorter = _compress_json(text, max_characters)
    if shorter is None:
        shorter = _compress_text(text, max_characters)
    if len(shorter) >= len(text):
        return CompressedResult(text, is_cut=False)
    return CompressedResult(shorter, is_cut=True)


def _compress_json(text: str, max_characters: int) -> str | None:
    if text.lstrip()[:1] not in ("{", "["):
        return None
    try:
        # Numbers stay as they are written, and of a key that comes twice both stay.
        data = json.loads(
            text, parse_float=_Raw, parse_int=_Raw, parse_constant=_Raw, object_pairs_hook=_Pairs
        )
        return _dump(data, max(_SHORT_CHARACTERS, max_characters // _END_SHARE), 0)
    except (ValueError, RecursionError):
        return None


class _Raw(str):
    """A number as it is written."""

    __slots__ = ()


class _Pairs(list[tuple[str, Any]]):
    """An object's keys and values in order."""

    __slots__ = ()


def _dump(value: Any, max_characters: int, depth: int) -> str:
    if depth > _MAX_DEPTH:
        raise RecursionError
    if isinstance(value, _Raw):
        return value
    if isinstance(value, str):
        return _quote(value if len(value) <= max_characters else _shorten(value, max_characters))
    if isinstance(value, _Pairs):
        inner = (f"{_quote(key)}: {_dump(item, max_characters, depth + 1)}" for key, item in value)
        return f"{{{', '.join(inner)}}}"
    if isinstance(value, list):
        return f"[{', '.join(_dump(item, max_characters, depth + 1) for item in value)}]"
    return json.dumps(value)


def _quote(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _shorten(text: str, max_characters: int) -> str:
    shorter = _compress_text(text, max_characters)
    return shorter if len(shorter) < len(text) else text


def _compress_text(text: str, max_characters: int) -> str:
    lines = text.split("\n")
    if len(lines) == 1:
        return _compress_line(text, max_characters // 4)
    head, tail = _ends(lines, max_characters // 4)
    kept = [*lines[:head], *_compress_lines(lines[head:tail]), *lines[tail:]]
    return "\n".join(kept)


def _ends(lines: list[str], end_characters: int) -> tuple[int, int]:
    """Return how many lines stay at the beginning, and where those of the end begin."""
    head, used = 0, 0
    while head < len(lines) and used + len(lines[head]) <= end_characters:
        used += len(lines[head]) + 1
        head += 1
    tail, used = len(lines), 0
    while tail > head and used + len(lines[tail - 1]) <= end_characters:
        tail -= 1
        used += len(lines[tail]) + 1
    return head, tail


def _compress_lines(lines: list[str]) -> Iterator[str]:
    num_gone = 0
    for line in lines:
        shorter = line if _ERROR.search(line) else _skeleton(line, 0)
        if shorter.strip() in ("", _MARK):
            num_gone += 1
            continue
        if num_gone:
            yield _lines_mark(num_gone)
            num_gone = 0
        yield shorter
    if num_gone:
        yield _lines_mark(num_gone)


def _lines_mark(num_lines: int) -> str:
    return f"[{_MARK} {num_lines} line{'s' if num_lines > 1 else ''}]"


def _compress_line(line: str, end_characters: int) -> str:
    """Compress a text of one line, of which the sentences that speak of errors stay whole."""
    if not _ERROR.search(line):
        return _skeleton(line, end_characters)
    sentences = re.split(r"(?<=[.!?;])\s+", line)
    return " ".join(
        sentence if _ERROR.search(sentence) else _skeleton(sentence, 0) for sentence in sentences
    )


def _skeleton(line: str, end_characters: int) -> str:
    """Keep the ends of a line and the decisive words between."""
    indent = line[: len(line) - len(line.lstrip())]
    words = line.split()
    position = 0
    total = len(line)
    kept: list[str] = []
    for word in words:
        is_end = position < end_characters or position >= total - end_characters
        position += len(word) + 1
        if is_end or _DECISIVE.search(word):
            kept.append(word)
        elif not kept or kept[-1] != _MARK:
            kept.append(_MARK)
    return indent + " ".join(kept)
