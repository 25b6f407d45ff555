"""What two files of traces have in common that training and validation must not share."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from memdecay.data.spill import TemporaryDatabase, text_key
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
    """Remembers digests of one file's traces, outside of memory, and finds them in another.

    Args:
        other: The file to remember; what is broken in it is passed over.
        database: Where the digests are kept.

    Raises:
        TraceError: The file cannot be read.
    """

    def __init__(self, other: Path, database: TemporaryDatabase) -> None:
        self._other = other
        self._whole = database.sightings("other traces")
        self._tasks = database.sightings("other tasks")
        self._openings = database.sightings("other openings")
        self._shingles = database.sightings("other shingles")
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
        if line := self._whole.first(prefix_digests(trace)[-1]):
            yield "leak-trace", "the same trace stands in", line
        if line := self._tasks.first(text_key(trace.task_id)):
            yield "leak-task", f"the task {trace.task_id!r} stands also in", line
        text = opening(trace)
        if text and (line := self._openings.first(text_digest(text))):
            yield "leak-opening", "the first user message stands also in", line
        for text in long_texts(trace):
            sample = shingle_sample(text)
            shared = Counter(self._shingles.firsts(sample))
            needed = max(MIN_SHARED_SHINGLES, NEAR_DUPLICATE_SHARE * len(sample))
            if shared.total() >= needed:
                line = shared.most_common(1)[0][0]
                yield "leak-text", "a long message is nearly the same as one in", line

    def _remember(self, number: int, trace: Trace) -> None:
        self._whole.add((prefix_digests(trace)[-1],), number)
        self._tasks.add((text_key(trace.task_id),), number)
        if text := opening(trace):
            self._openings.add((text_digest(text),), number)
        for text in long_texts(trace):
            self._shingles.add(shingle_sample(text), number)
