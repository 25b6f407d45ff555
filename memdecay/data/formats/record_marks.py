"""How the records of a list begin, to find the next one behind a broken one."""

from __future__ import annotations

import re
from typing import Any

MARK_CHARACTERS = 512
_MAX_MARKS = 8
# Opening brackets up to the first key, with the white space between: in indented files it tells
# records from the objects within them.
_START = re.compile(r'[\[{]\s*(?:[\[{]\s*)*"(?:[^"\\]|\\.)*"\s*:')


class RecordMarks:
    """Learns from the records of a list how they begin and which keys they have.

    A mark is the text from a record's first bracket to its first key. It can't occur within a
    string, whose quotes are escaped.
    """

    def __init__(self) -> None:
        self._known: dict[str, tuple[frozenset[str], bool]] = {}

    @staticmethod
    def mark_of(text: str) -> str:
        """Return the mark with which a text begins; empty if it begins otherwise."""
        found = _START.match(text, 0, MARK_CHARACTERS)
        return found.group() if found else ""

    def learn(self, mark: str, record: Any, *, is_whole: bool = True) -> None:
        """Remember the first record that began with ``mark``.

        Args:
            mark: See `mark_of`.
            record: The record.
            is_whole: Whether all of it could be read. What follows a broken one may lie within
                it, so nothing later takes its place here.
        """
        if mark and len(self._known) < _MAX_MARKS:
            self._known.setdefault(mark, (_keys(record), is_whole))

    def pattern(self) -> re.Pattern[str] | None:
        """Return what to look for: a comma and, as the group ``mark``, how records begin."""
        if not self._known:
            return None
        marks = "|".join(re.escape(mark) for mark in self._known)
        return re.compile(rf",\s*(?P<mark>{marks})")

    def fits(self, mark: str, record: Any, *, is_whole: bool) -> bool:
        """Tell a record from an object within one that begins alike, by its keys."""
        if isinstance(record, list):
            return True
        known, is_known_whole = self._known[mark]
        keys = _keys(record)
        shared = len(keys & known)
        if is_whole and is_known_whole:
            return 2 * shared >= len(keys | known)
        return 2 * shared >= max(min(len(keys), len(known)), 1)


def _keys(record: Any) -> frozenset[str]:
    return frozenset(record) if isinstance(record, dict) else frozenset()
