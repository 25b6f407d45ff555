"""Traces as the quality benchmark wants them, and the list of those that it takes."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from memdecay.classifier.errors import TraceError
from memdecay.classifier.token_regions import UNLABELLED
from memdecay.data.jsonl import read_traces
from memdecay.data.trace import Trace
from memdecay.runtime.bench.quality.case import QualityTrace


def quality_trace(trace: Trace) -> QualityTrace:
    """Return a trace with its labels, if it has any, as regions of characters."""
    return QualityTrace(
        id=trace.id,
        source=trace.source,
        messages=tuple(message.to_openai() for message in trace.messages),
        regions=_character_regions(trace) if trace.spans else None,
    )


def _character_regions(trace: Trace) -> tuple[NDArray[np.int8], ...]:
    regions = [np.full(len(message.content), UNLABELLED, np.int8) for message in trace.messages]
    for span in trace.spans:
        regions[span.message][span.start : span.end] = span.region
    return tuple(regions)


def select_traces(paths: Sequence[Path], selection: Path | None) -> Iterator[Trace]:
    """Yield the traces of some files, only those that a selection names if there is one.

    Args:
        paths: JSONL files.
        selection: JSON file whose ``traces`` is a list of ids.

    Raises:
        TraceError: A file can't be read, or the files lack a trace that is named. Raised while
            iterating.
    """
    wanted = None if selection is None else _named(selection)
    missing = set(wanted or ())
    for trace in chain.from_iterable(map(read_traces, paths)):
        if wanted is None or trace.id in wanted:
            missing.discard(trace.id)
            yield trace
    if missing:
        raise TraceError(
            f"{selection} names {len(missing)} traces that the files of --traces don't hold "
            f"({min(missing)!r}, ...); give their files too"
        )


def _named(path: Path) -> frozenset[str]:
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise TraceError(f"{path} can't be read as JSON ({error}); check the path") from error
    ids = data.get("traces") if isinstance(data, dict) else None
    if not isinstance(ids, list) or not all(isinstance(id_, str) for id_ in ids) or not ids:
        raise TraceError(f'{path} must hold an object with a list of ids under "traces"')
    return frozenset(ids)
