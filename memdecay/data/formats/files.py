"""Text out of files: compressed or not, in UTF-8 or UTF-16, whatever is broken in them."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterable, Iterator
from functools import partial
from io import TextIOWrapper
from pathlib import Path
from typing import IO, AnyStr, cast

from memdecay.classifier.errors import TraceError
from memdecay.data.formats.report import Notes

PIECE_BYTES = 256 * 1024
UTF16_MARKS = (b"\xff\xfe", b"\xfe\xff")
_UTF8_MARK = b"\xef\xbb\xbf"
_GZIP_MAGIC = b"\x1f\x8b"


def open_file(path: Path) -> IO[bytes]:
    """Open a file for reading, unpacking it where it is compressed by gzip.

    Raises:
        TraceError: If it cannot be opened.
    """
    try:
        with path.open("rb") as stream:
            compressed = stream.read(2) == _GZIP_MAGIC
        return cast("IO[bytes]", gzip.open(path, "rb")) if compressed else path.open("rb")
    except OSError as error:
        reason = error.strerror or error
        raise TraceError(f"cannot read {path}: {reason}; check the path") from error


def text_lines(path: Path, notes: Notes) -> Iterator[str]:
    """Yield the lines of a file, with their line breaks."""
    with open_file(path) as stream:
        encoding = _encoding(stream)
        if encoding == "utf-8":
            for line in _guarded(stream, notes):
                yield _decode(line, notes)
        else:
            text = TextIOWrapper(stream, encoding, "replace", newline="")
            yield from _guarded(text, notes)


def text_pieces(path: Path, notes: Notes, num_bytes: int = PIECE_BYTES) -> Iterator[str]:
    """Yield the text of a file in pieces of about ``num_bytes``, wherever its lines end."""
    with open_file(path) as stream:
        encoding = _encoding(stream)
        if encoding == "utf-8":
            for piece in _whole_characters(_guarded(_reads(stream, num_bytes), notes)):
                yield _decode(piece, notes)
        else:
            text = TextIOWrapper(stream, encoding, "replace", newline="")
            yield from _guarded(iter(partial(text.read, num_bytes), ""), notes)


def _reads(stream: IO[bytes], num_bytes: int) -> Iterator[bytes]:
    # One read at a time, so that broken compressed data cost nothing that came before the break.
    read = getattr(stream, "read1", stream.read)
    return iter(partial(read, num_bytes), b"")


def _whole_characters(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Move the cuts between pieces to where a character of UTF-8 begins."""
    rest = b""
    for piece in pieces:
        together = rest + piece
        end = _last_start(together)
        rest = together[end:]
        if end:
            yield together[:end]
    if rest:
        yield rest


def _last_start(data: bytes) -> int:
    """Return where the last character begins, which may go on in the next piece."""
    for end in range(len(data) - 1, max(len(data) - 4, 0) - 1, -1):
        if data[end] & 0xC0 != 0x80:
            return end
    return len(data)


def _encoding(stream: IO[bytes]) -> str:
    mark = stream.read(3)
    stream.seek(0)
    if mark.startswith(UTF16_MARKS):
        return "utf-16"
    if mark == _UTF8_MARK:
        stream.read(3)
    return "utf-8"


def _guarded(stream: Iterable[AnyStr], notes: Notes) -> Iterator[AnyStr]:
    """Yield until the end or until compressed data break."""
    try:
        yield from stream
    except (OSError, EOFError, zlib.error):
        notes.skip("rest of the file: its compressed data are broken")


def _decode(data: bytes, notes: Notes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        text = data.decode("utf-8", "replace")
        genuine = data.count("\ufffd".encode())
        notes.repair("byte that is no UTF-8 replaced", text.count("\ufffd") - genuine)
        return text
