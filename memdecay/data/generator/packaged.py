"""The generated runs that come with the package."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.resources import as_file, files
from pathlib import Path

from memdecay.data.jsonl import read_labelled_traces
from memdecay.data.trace import Trace

PACKAGED_NUM_TRACES = 80
PACKAGED_SEED = 0


@contextmanager
def packaged_path() -> Iterator[Path]:
    """Give the path of the packaged JSONL file while the context is open."""
    with as_file(files("memdecay.data").joinpath("resources", "synthetic.jsonl.gz")) as path:
        yield path


def load_synthetic_traces() -> list[Trace]:
    """Return the packaged labelled runs, in the order of `generate_traces`.

    Raises:
        TraceError: The packaged file is missing or damaged.
    """
    with packaged_path() as path:
        return list(read_labelled_traces(path))
