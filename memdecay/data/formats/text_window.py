"""A stretch of a long text, and the JSON value that begins in it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any

from memdecay.data.formats.repeated_keys import RepeatCounter

_PIECE = 256 * 1024
_NO_SPACE = re.compile(r"\S")
# Longer than any escape, literal or end of a number that the end of a piece can cut in two.
_LONGEST_TOKEN = 16


class JsonBreakError(ValueError):
    """The value at the cursor can't be read on.

    Attributes:
        reason: What is wrong, in words.
        text: The value's text up to there; empty where closing it is no use.
    """

    def __init__(self, reason: str, text: str = "") -> None:
        super().__init__(reason)
        self.reason = reason
        self.text = text


class TextWindow:
    """A stretch of a long text: what lies behind the cursor is forgotten, more comes on demand.

    Attributes:
        text: The stretch.
        cursor: A place in it.
        repeats: The values lost in what was parsed last.
    """

    def __init__(self, pieces: Iterable[str]) -> None:
        self.text = ""
        self.cursor = 0
        self.repeats = RepeatCounter()
        self._pieces = iter(pieces)
        self._num_forgotten = 0
        self._is_left = False

    @property
    def is_left(self) -> bool:
        """Whether the rest of the text was passed over."""
        return self._is_left

    @property
    def offset(self) -> int:
        """The cursor's place in the whole text."""
        return self._num_forgotten + self.cursor

    def peek(self) -> str:
        """Go to the next character that is no white space and return it; empty at the end."""
        while True:
            if found := _NO_SPACE.search(self.text, self.cursor):
                self.cursor = found.start()
                return found.group()
            self.cursor = len(self.text)
            if not self.grow():
                return ""

    def ahead(self, num_characters: int) -> str:
        """Return the next characters, fewer at the end."""
        while len(self.text) - self.cursor < num_characters and self.grow():
            pass
        return self.text[self.cursor : self.cursor + num_characters]

    def grow(self, num_characters: int = 1) -> bool:
        """Read at least so many characters more where there are; tell whether there were any."""
        parts, size = [self.text[self.cursor :]], 0
        while size < num_characters and (piece := next(self._pieces, None)) is not None:
            parts.append(piece)
            size += len(piece)
        if size:
            self._num_forgotten += self.cursor
            self.text, self.cursor = "".join(parts), 0
        return size > 0

    def leave(self) -> None:
        """Go to the end of the text."""
        self._is_left = True
        self.cursor = len(self.text)
        while self.grow():
            self.cursor = len(self.text)

    def value(self) -> tuple[Any, int]:
        """Parse the value that begins at the cursor, without going on.

        Returns:
            The value and its end in ``text``.

        Raises:
            JsonBreakError: It is broken or cut off.
        """
        while True:
            self.repeats.restart()
            try:
                value, end = self.repeats.decoder.raw_decode(self.text, self.cursor)
            except json.JSONDecodeError as error:
                is_open = error.msg.startswith("Unterminated string") or self._is_near_end(
                    error.pos
                )
                if is_open and self._double():
                    continue
                raise JsonBreakError("broken JSON", self.text[self.cursor : error.pos]) from error
            except RecursionError as error:
                raise JsonBreakError("JSON nested too deeply") from error
            except ValueError as error:
                raise JsonBreakError("JSON with a number too long") from error
            is_number = isinstance(value, int | float)
            if is_number and self._is_near_end(end) and self._double():
                continue
            return value, end

    def _is_near_end(self, place: int) -> bool:
        return place >= len(self.text) - _LONGEST_TOKEN

    def _double(self) -> bool:
        # A value is parsed anew with each growth: at twice the size that costs twice the time.
        return self.grow(max(len(self.text) - self.cursor, _PIECE))
