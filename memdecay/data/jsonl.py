"""Traces in JSONL files: one a line, plain or labelled, read and written as a stream."""

from __future__ import annotations

import codecs
import gzip
import json
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, cast

from memdecay.classifier.errors import TraceError
from memdecay.classifier.storage import write_atomically
from memdecay.data.schema import SchemaError, parse_trace, trace_to_data
from memdecay.data.trace import Trace


def read_traces(path: str | Path) -> Iterator[Trace]:
    """Yield the traces of a JSONL file (``.gz`` too), one line at a time.

    A line is an object with ``messages`` in OpenAI's chat shape, and perhaps ``spans`` and other
    fields, or a bare list of messages. Empty lines are passed over. A trace without an id is named
    after the file and the line.

    Raises:
        TraceError: The file cannot be read or holds no traces, or a line is no trace; the text
            names file, line and field. Raised while iterating.
    """
    path = Path(path)
    is_empty = True
    for number, raw in raw_lines(path):
        is_empty = False
        yield _parse_line(raw, path, number)
    if is_empty:
        raise TraceError(f"{path} holds no traces; expected one JSON object a line")


def raw_lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """Yield the lines of a file (``.gz`` too) that hold more than white space, with their numbers.

    Raises:
        TraceError: The file cannot be read. Raised while iterating.
    """
    with _open_for_reading(path) as stream:
        for number, line in enumerate(stream, start=1):
            raw = line.removeprefix(codecs.BOM_UTF8) if number == 1 else line
            if raw.strip():
                yield number, raw


def read_labelled_traces(path: str | Path) -> Iterator[Trace]:
    """Yield the traces of a labelled JSONL file.

    Raises:
        TraceError: As in `read_traces`, or a trace has no spans.
    """
    for trace in read_traces(path):
        if not trace.spans:
            raise TraceError(
                f"{path}: the trace {trace.id!r} has no spans; training and evaluation need "
                "traces with labelled spans"
            )
        yield trace


def write_traces(traces: Iterable[Trace], path: str | Path) -> int:
    """Write traces to a JSONL file (compressed if it ends in ``.gz``), whole or not at all.

    Returns:
        The number of traces written.

    Raises:
        StorageError: The file could not be written; what stood there is untouched.
    """
    path = Path(path)
    count = 0

    def write(temporary: Path) -> None:
        nonlocal count
        with _open_for_writing(temporary, is_compressed=path.suffix == ".gz") as stream:
            for trace in traces:
                stream.write(_line(trace))
                count += 1

    write_atomically(path, write)
    return count


@contextmanager
def _open_for_reading(path: Path) -> Iterator[BinaryIO]:
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as stream:
            yield cast("BinaryIO", stream)
    except FileNotFoundError as error:
        raise TraceError(f"{path} does not exist; check the path of the traces") from error
    except IsADirectoryError as error:
        raise TraceError(f"{path} is a folder; expected a JSONL file of traces") from error
    except (OSError, EOFError, zlib.error) as error:
        raise TraceError(f"{path} cannot be read ({error})") from error


@contextmanager
def _open_for_writing(path: Path, *, is_compressed: bool) -> Iterator[BinaryIO]:
    with path.open("wb") as stream:
        if not is_compressed:
            yield stream
            return
        # No name and no time inside, so that equal traces give equal files.
        with gzip.GzipFile("", "wb", fileobj=stream, mtime=0) as packed:
            yield cast("BinaryIO", packed)


def _parse_line(raw: bytes, path: Path, number: int) -> Trace:
    try:
        data = json.loads(raw.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise TraceError(
            f"{path}, line {number} is not UTF-8 text ({error.reason} at byte {error.start}); "
            "save the file as UTF-8"
        ) from error
    except (ValueError, RecursionError) as error:
        reason = error.msg if isinstance(error, json.JSONDecodeError) else str(error)
        raise TraceError(
            f"{path}, line {number} is not JSON ({reason}); expected one JSON object a line"
        ) from error
    try:
        return parse_trace(data, default_id=f"{path.name}:{number}")
    except SchemaError as error:
        raise TraceError(f"{path}, line {number}: {error}") from error


def _line(trace: Trace) -> bytes:
    data = trace_to_data(trace)
    try:
        return f"{json.dumps(data, ensure_ascii=False)}\n".encode()
    except UnicodeEncodeError:  # A lone surrogate: only JSON's escapes can hold it.
        return f"{json.dumps(data)}\n".encode()
