"""Traces of one file that repeat each other."""

from __future__ import annotations

from collections import Counter

from memdecay.data.trace import Trace
from memdecay.data.validation.findings import FileReport, Severity
from memdecay.data.validation.fingerprints import long_texts, prefix_digests, text_digest

MIN_REPEATS = 5


class DuplicateCheck:
    """Remembers the traces seen so far."""

    def __init__(self) -> None:
        self._ids: dict[str, int] = {}
        self._whole: dict[bytes, int] = {}
        self._beginnings: dict[bytes, int] = {}
        self._texts: Counter[bytes] = Counter()
        self._first: dict[bytes, int] = {}

    def check(self, number: int, trace: Trace, report: FileReport) -> None:
        """Note where a trace repeats an earlier one, continues it or is its beginning."""
        if earlier := self._ids.get(trace.id):
            text = f"the id {trace.id!r} stands also in line {earlier}; make ids unique"
            report.add(Severity.WARNING, "duplicate-id", number, text)
        self._ids.setdefault(trace.id, number)
        digests = prefix_digests(trace)
        if text := self._repeats(digests):
            report.add(Severity.WARNING, "duplicate-trace", number, text)
        self._whole.setdefault(digests[-1], number)
        for digest in digests:
            self._beginnings.setdefault(digest, number)
        for digest in {text_digest(text) for text in long_texts(trace)}:
            self._texts[digest] += 1
            self._first.setdefault(digest, number)

    def finish(self, report: FileReport) -> None:
        """Note long texts that stand in many traces."""
        for digest, count in self._texts.items():
            if count >= MIN_REPEATS:
                text = (
                    f"a long message stands in {count} traces; give these traces one task_id, "
                    "so that they stay on one side of a split"
                )
                report.add(Severity.NOTE, "repeated-text", self._first[digest], text)

    def _repeats(self, digests: list[bytes]) -> str:
        if line := self._whole.get(digests[-1]):
            return f"the same trace as line {line}; delete one"
        if line := self._beginnings.get(digests[-1]):
            return f"the beginning of line {line}; keep the longer one"
        for digest in reversed(digests[:-1]):
            if line := self._whole.get(digest):
                return f"goes on where line {line} ends; keep this one"
        return ""
