"""The start of a file, by which its layout and its format are told."""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import Enum
from pathlib import Path
from typing import IO, Any

from memdecay.classifier.errors import TraceError
from memdecay.data.formats.files import UTF16_MARKS, open_file
from memdecay.data.formats.partial import parse_json, parse_values

HEAD_BYTES = 256 * 1024
_SAMPLE_VALUES = 40
_ZIP_MAGIC = b"PK\x03\x04"


class Layout(Enum):
    """How a file holds its records."""

    JSON = "json"
    JSON_LINES = "jsonl"
    TEXT = "text"
    ZIP = "zip"


@dataclass(frozen=True, slots=True)
class Sample:
    """The start of a file, by which its format is recognised.

    Attributes:
        layout: How the file holds its records.
        values: The first JSON values; the last one may be cut off.
        text: The first characters.
        name: The file's name.
    """

    layout: Layout
    values: tuple[Any, ...]
    text: str
    name: str

    def records(self) -> list[dict[str, Any]]:
        """Return the first objects, taken out of a list around them."""
        flat = (item for value in self.values for item in _flatten(value))
        return [item for item in flat if isinstance(item, dict)]

    def enclosing_keys(self) -> list[str]:
        """Return the keys of the first objects under which lists of objects stand."""
        records = (value for value in self.values if isinstance(value, dict))
        lists = ((key, item) for record in records for key, item in record.items())
        found = (key for key, item in lists if _is_of_objects(item))
        return list(dict.fromkeys(found))

    def within(self, key: str) -> Sample:
        """Return the sample with the lists under ``key`` in place of the objects around them."""
        values = (value.get(key) if isinstance(value, dict) else value for value in self.values)
        return replace(self, values=tuple(value for value in values if value is not None))


def read_sample(path: Path) -> Sample:
    """Read the start of a file and tell its layout.

    Raises:
        TraceError: If the file cannot be read.
    """
    try:
        with open_file(path) as stream:
            head = stream.read(HEAD_BYTES)
            # The end of the first line tells JSON Lines with a huge line from one JSON value.
            more = _next_line_start(stream) if len(head) == HEAD_BYTES else b""
    except (OSError, EOFError, zlib.error) as error:
        raise TraceError(f"cannot read {path}: {error}; check the path and the file") from error
    if head.startswith(_ZIP_MAGIC):
        return Sample(Layout.ZIP, (), "", path.name)
    encoding = "utf-16" if head.startswith(UTF16_MARKS) else "utf-8-sig"
    text = head.decode(encoding, "replace")
    layout, values = _layout(text, len(head) < HEAD_BYTES, more)
    return Sample(layout, tuple(values[:_SAMPLE_VALUES]), text, path.name)


def _layout(text: str, complete: bool, more: bytes) -> tuple[Layout, list[Any]]:
    values, unused = parse_values(text, keep_open=True)
    if complete and not unused and len(values) == 1 and isinstance(values[0], dict | list):
        one_line = "\n" not in text.strip() and isinstance(values[0], dict)
        return (Layout.JSON_LINES if one_line else Layout.JSON), values
    lines = [line for line in text.splitlines() if line.strip()]
    lines = lines if complete or len(lines) < 2 else lines[:-1]
    by_line = [value for line in lines if (value := _line_value(line)) is not None]
    # The first line of indented JSON is no JSON by itself.
    if by_line and (_line_value(lines[0]) is not None or 2 * len(by_line) >= len(lines)):
        return Layout.JSON_LINES, by_line
    if not values or not isinstance(values[0], dict | list):
        return Layout.TEXT, []
    is_lines = "\n" not in text.rstrip() and more[:1] in (b"{", b"[")
    return (Layout.JSON_LINES if is_lines else Layout.JSON), values


def _line_value(line: str) -> Any:
    if line.lstrip()[:1] not in ("{", "["):
        return None
    try:
        return parse_json(line)
    except ValueError:
        return None


def _next_line_start(stream: IO[bytes]) -> bytes:
    while chunk := stream.read(HEAD_BYTES):
        _, found, rest = chunk.partition(b"\n")
        if found:
            return (rest or stream.read(1024)).lstrip()[:1]
    return b""


def _flatten(value: object) -> Iterable[Any]:
    return value if isinstance(value, list) else (value,)


def _is_of_objects(value: object) -> bool:
    return isinstance(value, list) and any(isinstance(item, dict) for item in value)
