"""A file to import: its layout, its first values, and its records one after the other."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum
from io import TextIOWrapper
from pathlib import Path
from typing import IO, Any, AnyStr, cast

from memdecay.classifier.errors import TraceError
from memdecay.data.formats.partial import parse_json, parse_values
from memdecay.data.formats.report import Notes

HEAD_BYTES = 256 * 1024
_SAMPLE_VALUES = 40
_GZIP_MAGIC = b"\x1f\x8b"
_ZIP_MAGIC = b"PK\x03\x04"
_UTF16_MARKS = (b"\xff\xfe", b"\xfe\xff")


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


@dataclass(frozen=True, slots=True)
class Record:
    """One JSON value of a file and its place, such as ``line 12``."""

    value: Any
    where: str


@dataclass(frozen=True, slots=True)
class Source:
    """A readable file with its notes.

    Attributes:
        path: The file.
        label: The file's name in trace ids, unique within an import.
        layout: How the file holds its records.
        notes: Where readers note what they repair and skip.
    """

    path: Path
    label: str
    layout: Layout
    notes: Notes

    def values(self) -> Iterator[Record]:
        """Yield the JSON values: one a line, or the few of a JSON file."""
        if self.layout is Layout.JSON_LINES:
            yield from self._line_values()
            return
        text = "".join(self.lines())
        values, unused = parse_values(text)
        if unused:
            self.notes.repair("broken JSON read up to the break")
            self.notes.skip("character after the break in the JSON", unused)
        for number, value in enumerate(values, 1):
            yield Record(value, f"value {number}" if len(values) > 1 else "")

    def items(self) -> Iterator[Record]:
        """Yield the objects: lists are opened, what is no object is skipped and noted."""
        for record in self.values():
            for number, item in enumerate(_flatten(record.value), 1):
                place = f"item {number}" if isinstance(record.value, list) else ""
                where = ", ".join(part for part in (record.where, place) if part)
                if isinstance(item, dict):
                    yield Record(item, where)
                else:
                    self.notes.skip("record that is no object", where=where)

    def lines(self) -> Iterator[str]:
        """Yield the lines as text, with their line breaks."""
        with _open(self.path) as stream:
            encoding = _encoding(stream)
            if encoding == "utf-8":
                for line in _guarded(stream, self.notes):
                    yield _decode(line, self.notes)
            else:
                text = TextIOWrapper(stream, encoding, "replace", newline="")
                yield from _guarded(text, self.notes)

    def _line_values(self) -> Iterator[Record]:
        for number, line in enumerate(self.lines(), 1):
            if not line.strip():
                continue
            where = f"line {number}"
            try:
                value = parse_json(line.strip())
            except ValueError:
                self.notes.skip("line that is no JSON", where=where)
                continue
            yield Record(value, where)


def read_sample(path: Path) -> Sample:
    """Read the start of a file and tell its layout.

    Raises:
        TraceError: If the file cannot be read.
    """
    try:
        with _open(path) as stream:
            head = stream.read(HEAD_BYTES)
            # The end of the first line tells JSON Lines with a huge line from one JSON value.
            more = _next_line_start(stream) if len(head) == HEAD_BYTES else b""
    except (OSError, EOFError, zlib.error) as error:
        raise TraceError(f"cannot read {path}: {error}; check the path and the file") from error
    if head.startswith(_ZIP_MAGIC):
        return Sample(Layout.ZIP, (), "", path.name)
    encoding = "utf-16" if head.startswith(_UTF16_MARKS) else "utf-8-sig"
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


def _open(path: Path) -> IO[bytes]:
    try:
        with path.open("rb") as stream:
            compressed = stream.read(2) == _GZIP_MAGIC
        return cast("IO[bytes]", gzip.open(path, "rb")) if compressed else path.open("rb")
    except OSError as error:
        reason = error.strerror or error
        raise TraceError(f"cannot read {path}: {reason}; check the path") from error


def _encoding(stream: IO[bytes]) -> str:
    mark = stream.read(3)
    stream.seek(0)
    if mark.startswith(_UTF16_MARKS):
        return "utf-16"
    if mark == b"\xef\xbb\xbf":
        stream.read(3)
    return "utf-8"


def _guarded(stream: Iterable[AnyStr], notes: Notes) -> Iterator[AnyStr]:
    """Yield lines until the end or until compressed data break."""
    try:
        yield from stream
    except (OSError, EOFError, zlib.error):
        notes.skip("rest of the file: its compressed data are broken")


def _decode(line: bytes, notes: Notes) -> str:
    try:
        return line.decode()
    except UnicodeDecodeError:
        text = line.decode("utf-8", "replace")
        notes.repair("byte that is no UTF-8 replaced", text.count("\ufffd"))
        return text
