"""The text of an answer while its tokens are being chosen, and where a stop text ends it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from memdecay.runtime.text_stream import decode_text

_UNFINISHED = "\N{REPLACEMENT CHARACTER}"


class Answer:
    """Tokens in, pieces of text out.

    A character of several tokens waits for its last, and text that may turn out to begin a stop
    text waits until that is clear.

    Args:
        tokenizer: A transformers tokenizer.
        stop: Texts before which the answer ends.
    """

    def __init__(self, tokenizer: Any, stop: Sequence[str] = ()) -> None:
        self._tokenizer = tokenizer
        self._stop = tuple(stop)
        self._token_ids: list[int] = []
        self._text = ""
        self._num_sent = 0
        # The text of tokens depends on a few before them: they are decoded again each time.
        self._context_start = 0
        self._context_end = 0
        self._is_stopped = False

    @property
    def token_ids(self) -> tuple[int, ...]:
        """The tokens; where a stop text was found, those whose text lies before it."""
        return tuple(self._token_ids)

    @property
    def text(self) -> str:
        """The text so far, without what still waits for the rest of a character."""
        return self._text

    @property
    def is_stopped(self) -> bool:
        """Whether a stop text was found; nothing more may be added then."""
        return self._is_stopped

    def __len__(self) -> int:
        """Return the number of tokens."""
        return len(self._token_ids)

    def add(self, token_id: int) -> str:
        """Add a token and return the text that can be handed on now, which may be empty."""
        self._token_ids.append(token_id)
        new_text = self._new_text()
        if new_text.endswith(_UNFINISHED):
            return ""
        return self._take(new_text)

    def finish(self) -> str:
        """Return the text that still waited."""
        piece = "" if self._is_stopped else self._take(self._new_text())
        return piece + self._send(len(self._text))

    def _new_text(self) -> str:
        known = decode_text(
            self._tokenizer, self._token_ids[self._context_start : self._context_end]
        )
        return decode_text(self._tokenizer, self._token_ids[self._context_start :])[len(known) :]

    def _take(self, new_text: str) -> str:
        if not new_text:
            return ""
        num_before = len(self._text)
        self._text += new_text
        self._context_start, self._context_end = self._context_end, len(self._token_ids)
        longest = max(map(len, self._stop), default=1)
        found = self._find_stop(max(0, num_before - longest + 1))
        if found is not None:
            self._cut(found)
            return self._send(found)
        return self._send(len(self._text) - self._num_held_back())

    def _find_stop(self, start: int) -> int | None:
        places = [self._text.find(stop, start) for stop in self._stop]
        return min((place for place in places if place >= 0), default=None)

    def _num_held_back(self) -> int:
        """Return the length of the longest end of the text that begins a stop text."""
        longest = max(map(len, self._stop), default=1)
        for length in range(min(longest - 1, len(self._text)), 0, -1):
            if any(stop.startswith(self._text[-length:]) for stop in self._stop):
                return length
        return 0

    def _cut(self, place: int) -> None:
        self._is_stopped = True
        self._text = self._text[:place]
        while self._token_ids:
            text = decode_text(self._tokenizer, self._token_ids)
            if len(text) <= place and self._text.startswith(text):
                return
            self._token_ids.pop()

    def _send(self, end: int) -> str:
        piece = self._text[self._num_sent : end]
        self._num_sent = max(self._num_sent, end)
        return piece
