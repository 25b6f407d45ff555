"""The text features of a conversation's messages, and how they come to its tokens."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import numpy as np
from numpy.typing import NDArray

from memdecay.classifier.messages import chat_message
from memdecay.classifier.rendering import RenderedConversation
from memdecay.classifier.rules.conversation import ConversationReader, Speaker, Turn
from memdecay.classifier.text.names import NUM_TEXT_FEATURES
from memdecay.classifier.text.places import Before
from memdecay.classifier.text.turns import turn_features

ReadText = Callable[[Sequence[Mapping[str, Any]]], "ConversationText"]
"""Computes what `read_text` does."""

_TEMPLATE_ROW, _CALL_ROW, _FIRST_ROW = 0, 1, 2


@dataclass(frozen=True, slots=True, eq=False)
class TextPieces:
    """Features of the pieces of one message's content.

    Attributes:
        starts: ``(num_pieces,)``, int64; first character of each.
        rows: ``(num_pieces, NUM_TEXT_FEATURES)``, float32, read-only.
    """

    starts: NDArray[np.int64]
    rows: NDArray[np.float32]


@dataclass(frozen=True, slots=True, eq=False)
class ConversationText:
    """Features of every piece of every message.

    Attributes:
        rows: ``(num_rows, NUM_TEXT_FEATURES)``, float32: a row of zeros for the template's own
            text, one for structured calls, then one a piece.
        starts: For each message the first character of each of its pieces in its content.
        first_rows: For each message the row of its first piece.
    """

    rows: NDArray[np.float32]
    starts: tuple[NDArray[np.int64], ...]
    first_rows: tuple[int, ...]

    def token_rows(
        self, rendered: RenderedConversation, offsets: NDArray[np.int64]
    ) -> NDArray[np.int32]:
        """Return which row each token has, by the character in its middle.

        Args:
            rendered: The messages as text; messages behind the last known one count as template.
            offsets: ``(n, 2)``, int64; first character and end of each token in that text.

        Returns:
            ``(n,)``, int32.
        """
        middles = offsets.sum(axis=1) // 2
        found = np.full(len(middles), _TEMPLATE_ROW, np.int32)
        for message in rendered.messages[: len(self.starts)]:
            low, high = np.searchsorted(middles, (message.calls_start, message.calls_end))
            found[low:high] = _CALL_ROW
            low, high = np.searchsorted(middles, (message.content_start, message.content_end))
            starts = self.starts[message.index]
            if high > low and len(starts):
                place = middles[low:high] - message.content_start + message.content_skip
                piece = np.searchsorted(starts, place, side="right") - 1
                found[low:high] = self.first_rows[message.index] + piece.clip(min=0)
        return found


class TextReader:
    """Computes the text features of messages one after the other, as they come."""

    def __init__(self) -> None:
        self._reader = ConversationReader()
        self._before = Before()
        self._speakers: dict[Speaker, None] = {}
        self._num_messages = 0

    def read(self, message: Mapping[str, Any]) -> TextPieces:
        """Return the features of the next message.

        Args:
            message: An OpenAI chat message of any shape.
        """
        turn = self._reader.next_turn(self._num_messages, chat_message(message))
        rows = turn_features(turn, self._before, tuple(self._speakers))
        self._before = _followed_by(self._before, turn)
        self._speakers[turn.speaker] = None
        self._num_messages += 1
        return TextPieces(np.array([piece.start for piece in turn.segments], np.int64), rows)

    def peek(self, message: Mapping[str, Any]) -> TextPieces:
        """Return what `read` would, and stay where it is: for a message that still grows."""
        return deepcopy(self).read(message)


def reader_behind(messages: Sequence[Mapping[str, Any]]) -> TextReader:
    """Return a reader that has read these messages."""
    reader = TextReader()
    for message in messages:
        reader.read(message)
    return reader


def read_text(messages: Sequence[Mapping[str, Any]]) -> ConversationText:
    """Compute the text features of a conversation.

    A message's features depend on it and on the messages before it, on none behind it.

    Args:
        messages: OpenAI chat messages of any shape.
    """
    reader = TextReader()
    return joined_text([reader.read(message) for message in messages])


def joined_text(pieces: Sequence[TextPieces]) -> ConversationText:
    """Put the features of all messages together, in their order."""
    sizes = [len(message.rows) for message in pieces]
    return ConversationText(
        rows=np.concatenate([_fixed_rows(), *(message.rows for message in pieces)]),
        starts=tuple(message.starts for message in pieces),
        first_rows=tuple(accumulate(sizes, initial=_FIRST_ROW))[:-1],
    )


def _fixed_rows() -> NDArray[np.float32]:
    rows = np.zeros((_FIRST_ROW, NUM_TEXT_FEATURES), np.float32)
    rows[_CALL_ROW, -1] = 1.0
    return rows


def _followed_by(before: Before, turn: Turn) -> Before:
    said = "\n".join((turn.text, *turn.calls))
    return Before(
        opening=f"{before.opening}\n{said}" if turn.is_opening else before.opening,
        assistant=said if turn.speaker is Speaker.ASSISTANT else before.assistant,
        user=said if turn.speaker is Speaker.USER else before.user,
    )
