"""Traces of one file that repeat each other."""

from __future__ import annotations

from memdecay.data.spill import TemporaryDatabase, text_key
from memdecay.data.trace import Trace
from memdecay.data.validation.findings import FileReport, Severity
from memdecay.data.validation.fingerprints import long_texts, prefix_digests, text_digest

MIN_REPEATS = 5


class DuplicateCheck:
    """Remembers digests of the traces seen so far, outside of memory.

    Args:
        database: Where they are kept.
    """

    def __init__(self, database: TemporaryDatabase) -> None:
        self._ids = database.sightings("ids")
        self._whole = database.sightings("traces")
        self._beginnings = database.sightings("beginnings")
        self._texts = database.sightings("texts")

    def check(self, number: int, trace: Trace, report: FileReport) -> None:
        """Note where a trace repeats an earlier one, continues it or is its beginning."""
        identity = text_key(trace.id)
        if earlier := self._ids.first(identity):
            text = f"the id {trace.id!r} stands also in line {earlier}; make ids unique"
            report.add(Severity.WARNING, "duplicate-id", number, text)
        digests = prefix_digests(trace)
        if text := self._repeats(digests):
            report.add(Severity.WARNING, "duplicate-trace", number, text)
        self._ids.add((identity,), number)
        self._whole.add((digests[-1],), number)
        self._beginnings.add(digests, number)
        self._texts.add({text_digest(text) for text in long_texts(trace)}, number)

    def finish(self, report: FileReport) -> None:
        """Note long texts that stand in many traces."""
        for first, count in self._texts.often(MIN_REPEATS):
            text = (
                f"a long message stands in {count} traces; give these traces one task_id, "
                "so that they stay on one side of a split"
            )
            report.add(Severity.NOTE, "repeated-text", first, text)

    def _repeats(self, digests: list[bytes]) -> str:
        if line := self._whole.first(digests[-1]):
            return f"the same trace as line {line}; delete one"
        if line := self._beginnings.first(digests[-1]):
            return f"the beginning of line {line}; keep the longer one"
        for line in self._whole.firsts(reversed(digests[:-1])):
            return f"goes on where line {line} ends; keep this one"
        return ""
