"""What two files of traces have in common that training and validation must not share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from memdecay.data.trace import Trace
from memdecay.data.validation.findings import FileReport, Severity
from memdecay.data.validation.fingerprints import (
    long_texts,
    opening,
    prefix_digests,
    shingle_sample,
    text_digest,
)
from memdecay.data.validation.lines import tolerant_traces

NEAR_DUPLICATE_SHARE = 0.5
MIN_SHARED_SHINGLES = 5


class LeakageCheck:
    """Remembers one file's traces and finds them again in another."""

    def __init__(self, other: Path) -> None:
        """Read the other file; what is broken in it is passed over.

        Raises:
            TraceError: The file cannot be read.
        """
        self._other = other
        self._tasks: dict[str, int] = {}
        self._whole: dict[bytes, int] = {}
        self._openings: dict[bytes, int] = {}
        self._shingles: dict[int, int] = {}
        for number, trace in tolerant_traces(FileReport(other)):
            self._remember(number, trace)

    def check(self, number: int, trace: Trace, report: FileReport) -> None:
        """Note how a trace is found again in the other file, by the strongest evidence only."""
        for code, what, line in self._matches(trace):
            report.add(
                Severity.ERROR,
                code,
                number,
                f"{what} {self._other}:{line}; keep both in one of the two files",
            )
            return

    def _matches(self, trace: Trace) -> Iterator[tuple[str, str, int]]:
        if line := self._whole.get(prefix_digests(trace)[-1]):
            yield "leak-trace", "the same trace stands in", line
        if line := self._tasks.get(trace.task_id):
            yield "leak-task", f"the task {trace.task_id!r} stands also in", line
        text = opening(trace)
        if text and (line := self._openings.get(text_digest(text))):
            yield "leak-opening", "the first user message stands also in", line
        for text in long_texts(trace):
            sample = shingle_sample(text)
            shared = [self._shingles[value] for value in sample if value in self._shingles]
            needed = max(MIN_SHARED_SHINGLES, NEAR_DUPLICATE_SHARE * len(sample))
            if len(shared) >= needed:
                line = max(set(shared), key=shared.count)
                yield "leak-text", "a long message is nearly the same as one in", line

    def _remember(self, number: int, trace: Trace) -> None:
        self._whole.setdefault(prefix_digests(trace)[-1], number)
        self._tasks.setdefault(trace.task_id, number)
        if text := opening(trace):
            self._openings.setdefault(text_digest(text), number)
        for text in long_texts(trace):
            for value in shingle_sample(text):
                self._shingles.setdefault(value, number)
