"""JSON read value by value out of text that comes in pieces, in memory for one value.

Values are parsed by the standard library, as those of whole files are. Streaming parsers are
strict: they stop at the first NaN, raw tab or broken record, and lose lone surrogates.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from memdecay.data.formats.partial import close_json
from memdecay.data.formats.record_marks import MARK_CHARACTERS, RecordMarks
from memdecay.data.formats.report import Notes
from memdecay.data.formats.text_window import JsonBreakError, TextWindow


class JsonStream:
    """The JSON values of a text, whose long lists are read element by element.

    A broken element costs itself: what comes before the break in it is kept, and reading goes on
    where an element begins as the others did. A text that is cut off keeps what is before the cut.

    Args:
        pieces: The text.
        notes: Where breaks are noted.
    """

    def __init__(self, pieces: Iterable[str], notes: Notes) -> None:
        self._window = TextWindow(pieces)
        self._notes = notes

    def peek(self) -> str:
        """Return the first character of the next value; empty at the end."""
        return self._window.peek()

    def value(self) -> Iterator[Any]:
        """Yield the next value, as far as it goes; nothing if no part of it can be used.

        Behind a break nothing is read any more.
        """
        self._window.peek()
        start = self._window.offset
        try:
            value, self._window.cursor = self._window.value()
            self._window.repeats.note(self._notes)
        except JsonBreakError as broken:
            value, used = close_json(broken.text)
            self._end_at_break(start + used)
            if not value:
                return
        yield value

    def elements(self) -> Iterator[tuple[int, Any]]:
        """Yield number (from 1) and value of the elements of the list that is next."""
        self._window.peek()
        yield from _ListReader(self._window, self._notes)

    def members(self, lists: tuple[str, ...]) -> Iterator[tuple[str, int, Any]]:
        """Yield the members of the object that is next.

        Args:
            lists: Keys whose lists are read element by element.

        Yields:
            Key, number and value: the number is 0 for a whole member, and from 1 on for the
            elements of a list, before which the list comes as an empty one.
        """
        window = self._window
        window.peek()
        window.cursor += 1
        is_first = True
        while (sign := window.peek()) != "}":
            end, has_comma = window.offset, sign == ","
            if has_comma:
                window.cursor += 1
                sign = window.peek()
            key = self._key() if sign == '"' and has_comma != is_first else None
            if key is None:
                self._end_at_break(end)
                return
            is_first = False
            if key in lists and window.peek() == "[":
                yield key, 0, []
                yield from ((key, number, value) for number, value in self.elements())
            else:
                yield from ((key, 0, value) for value in self.value())
        window.cursor += 1

    def _key(self) -> str | None:
        """Read a key and its colon; None if there is none."""
        window = self._window
        try:
            key, window.cursor = window.value()
        except JsonBreakError:
            return None
        if window.peek() != ":":
            return None
        window.cursor += 1
        return str(key)

    def _end_at_break(self, end: int) -> None:
        if not self._window.is_left:
            self._window.leave()
            note_break(self._notes, self._window.offset - end)


class _ListReader:
    """Reads a list's elements one by one, from its opening bracket on."""

    def __init__(self, window: TextWindow, notes: Notes) -> None:
        self._window = window
        self._notes = notes
        self._marks = RecordMarks()
        self._number = 0
        self._has_lost = False
        self._is_at_next: bool | None = None
        self._end = window.offset

    def __iter__(self) -> Iterator[tuple[int, Any]]:
        self._window.cursor += 1
        while self._goes_on():
            self._number += 1
            for value in self._element():
                yield self._number, value

    @property
    def _where(self) -> str:
        return f"item {self._number}"

    def _goes_on(self) -> bool:
        """Go to the next element; False where none follows."""
        if self._is_at_next is not None:
            is_at_next, self._is_at_next = self._is_at_next, None
            return is_at_next
        sign = self._window.peek()
        if sign == "," and self._number:
            self._window.cursor += 1
            sign = self._window.peek()
            if sign == "]":
                self._notes.repair("comma behind the last record", where=self._where)
        elif sign in ("{", "[") and self._number:
            self._notes.repair("comma missing between records", where=self._where)
        elif sign not in ("", "]") and self._number:
            return self._recover()
        if sign == "]":
            self._window.cursor += 1
            # Behind a broken record this may be the end of a list within it.
            return self._has_lost and self._goes_to_next()
        if not sign:
            self._window.leave()
            note_break(self._notes, self._window.offset - self._end, self._where)
        return bool(sign)

    def _element(self) -> Iterator[Any]:
        window = self._window
        mark = self._marks.mark_of(window.ahead(MARK_CHARACTERS))
        try:
            value, window.cursor = window.value()
        except JsonBreakError as broken:
            yield from self._broken(mark, broken)
            return
        window.repeats.note(self._notes, self._where)
        self._marks.learn(mark, value)
        self._end = window.offset
        yield value

    def _broken(self, mark: str, broken: JsonBreakError) -> Iterator[Any]:
        """Yield what of a broken record comes before the break, and go to the next record."""
        value, used = close_json(broken.text)
        self._marks.learn(mark, value, is_whole=False)
        if used:
            self._window.cursor += used
            self._end = self._window.offset
        else:
            self._notes.skip(f"record that is {broken.reason}", where=self._where)
        if value:
            yield value
        self._is_at_next = self._recover()

    def _recover(self) -> bool:
        """Go to the next record behind a break, and note what is lost."""
        self._has_lost = True
        is_found = self._goes_to_next()
        note_break(self._notes, self._window.offset - self._end, self._where)
        self._end = self._window.offset
        return is_found

    def _goes_to_next(self) -> bool:
        """Go to where the next record begins; to the end and False if there is none."""
        window, pattern = self._window, self._marks.pattern()
        while pattern is not None:
            if found := pattern.search(window.text, window.cursor):
                window.cursor = found.start("mark")
                if self._is_record(found["mark"]):
                    return True
                window.cursor += 1
                continue
            # A mark may lie across the end of this piece.
            window.cursor = max(window.cursor, len(window.text) - MARK_CHARACTERS)
            if not window.grow():
                break
        window.leave()
        return False

    def _is_record(self, mark: str) -> bool:
        try:
            value, _ = self._window.value()
        except JsonBreakError as broken:
            value, _ = close_json(broken.text)
            return self._marks.fits(mark, value, is_whole=False)
        return self._marks.fits(mark, value, is_whole=True)


def note_break(notes: Notes, num_lost: int, where: str = "") -> None:
    """Note broken JSON, and how many characters it cost."""
    notes.repair("broken JSON read up to the break", where=where)
    notes.skip("character after the break in the JSON", num_lost, where)
