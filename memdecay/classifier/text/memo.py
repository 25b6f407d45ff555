"""How far conversations were read, for those that come again with more messages."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass, field
from threading import Lock
from typing import Any

from memdecay.classifier.text.conversation import (
    ConversationText,
    TextPieces,
    TextReader,
    joined_text,
)


@dataclass(slots=True, eq=False)
class _Read:
    """A conversation as far as it was read."""

    owner: Hashable
    messages: list[Mapping[str, Any]] = field(default_factory=list)
    pieces: list[TextPieces] = field(default_factory=list)
    reader: TextReader = field(default_factory=TextReader)

    def begins(self, messages: Sequence[Mapping[str, Any]]) -> bool:
        num_read = len(self.messages)
        if not num_read or num_read > len(messages):
            return False
        # From the last one on: conversations of one kind begin alike.
        return all(self.messages[i] == messages[i] for i in reversed(range(num_read)))

    def go_on(self, messages: Sequence[Mapping[str, Any]]) -> None:
        for message in messages[len(self.messages) :]:
            self.pieces.append(self.reader.read(message))
            self.messages.append(message)


class TextMemo:
    """Reads only what is new in conversations that grow from call to call.

    May be used by several threads.

    Args:
        max_conversations: How many are remembered, those read last.

    Raises:
        ValueError: That is below 1.
    """

    def __init__(self, max_conversations: int) -> None:
        if max_conversations < 1:
            raise ValueError(f"max_conversations must be 1 or more, got {max_conversations}")
        self._max_conversations = max_conversations
        self._known: list[_Read] = []  # The one read last is the last.
        self._lock = Lock()

    def read(
        self, messages: Sequence[Mapping[str, Any]], owner: Hashable = None
    ) -> ConversationText:
        """Return what `read_text` does.

        Args:
            messages: OpenAI chat messages of any shape, which nobody changes afterwards.
            owner: Whose they are: nobody is the faster for what others have read.
        """
        with self._taken(messages, owner) as taken:
            return joined_text(taken.pieces)

    def reader(self, messages: Sequence[Mapping[str, Any]], owner: Hashable = None) -> TextReader:
        """Return a reader that has read these messages."""
        with self._taken(messages, owner) as taken:
            return deepcopy(taken.reader)

    @contextmanager
    def _taken(self, messages: Sequence[Mapping[str, Any]], owner: Hashable) -> Iterator[_Read]:
        """Take a conversation out, read up to its end; others can be read at the same time."""
        with self._lock:
            fitting = (one for one in self._known if one.owner == owner and one.begins(messages))
            found = max(fitting, key=lambda one: len(one.messages), default=None)
            if found is not None:
                self._known.remove(found)
        taken = found or _Read(owner)
        # Not known any more if that fails: a message may be none that can be read.
        taken.go_on(messages)
        yield taken
        with self._lock:
            self._known = [*self._known, taken][-self._max_conversations :]
