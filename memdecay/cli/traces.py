"""Traces that a command was given."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from memdecay.classifier.errors import TraceError
from memdecay.data.generator import PACKAGED_SEED, generate_traces
from memdecay.data.jsonl import read_labelled_traces, read_traces
from memdecay.data.trace import Trace
from memdecay.training.supplement import DEFAULT_NUM_TRACES


def load_labelled_traces(paths: Sequence[Path], num_generated: int = 0) -> list[Trace]:
    """Read all labelled traces of some files, and generate further ones.

    Args:
        paths: JSONL files.
        num_generated: How many generated traces to add; the packaged ones come first.

    Raises:
        TraceError: A file is missing or has a line that is no labelled trace, or there are none.
    """
    traces = [trace for path in paths for trace in read_labelled_traces(path)]
    traces += generate_traces(num_generated, PACKAGED_SEED)
    if not traces:
        raise TraceError("no labelled traces were given; give files with --traces")
    return traces


def generated_supplement(num_traces: int | None) -> list[Trace]:
    """Return generated traces to train on beside recorded ones.

    Args:
        num_traces: How many; None for `DEFAULT_NUM_TRACES`.
    """
    wanted = DEFAULT_NUM_TRACES if num_traces is None else num_traces
    return list(generate_traces(wanted, PACKAGED_SEED))


def pick_trace(path: Path, trace_id: str | None, index: int) -> Trace:
    """Return the trace of a file that has an id, or stands at an index.

    Raises:
        TraceError: The file is missing or broken before that trace, or holds no such trace.
    """
    count = 0
    for count, trace in enumerate(read_traces(path), start=1):
        if (trace_id is not None and trace.id == trace_id) or (
            trace_id is None and count - 1 == index
        ):
            return trace
    wanted = f"with the id {trace_id!r}" if trace_id is not None else f"at index {index}"
    raise TraceError(
        f"{path} holds {count} traces but none {wanted}; give --index from 0 to {count - 1} "
        "or an --id that is there"
    )
