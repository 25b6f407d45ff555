"""Rule labels of a conversation that grows: what was read before is not read again."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from memdecay.classifier.messages import ChatMessage, chat_message
from memdecay.classifier.rules.conversation import (
    Conversation,
    ConversationReader,
    Speaker,
    Turn,
)
from memdecay.classifier.rules.registry import DEFAULT_RULES
from memdecay.classifier.rules.vote import SegmentGrid, winners


def last_of(turn: Turn, speakers: Iterable[Speaker]) -> Conversation:
    """Return a conversation that ends with a message, the earlier ones without their text.

    To rules that don't look ahead it is the whole conversation: of the earlier messages they ask
    only who has spoken.

    Args:
        turn: The message.
        speakers: Who has spoken before it, each once, in the order of their first messages.
    """
    earlier = [
        Turn(index=index, speaker=speaker, text="", lower="", segments=())
        for index, speaker in enumerate(speakers)
    ]
    return Conversation((*earlier, replace(turn, index=len(earlier))), lookahead=False)


@dataclass(frozen=True, slots=True)
class _Place:
    """What is known behind a message; never changed."""

    reader: ConversationReader
    speakers: tuple[Speaker, ...]

    def read(self, message: ChatMessage) -> tuple[_Place, NDArray[np.int8]]:
        """Return the place behind the next message, and that message's labels."""
        reader = deepcopy(self.reader)
        turn = reader.next_turn(0, message)
        speakers = dict.fromkeys((*self.speakers, turn.speaker))
        return _Place(reader, tuple(speakers)), _labels(turn, self.speakers)


class GrowingLabels:
    """What `rule_labels` says of a conversation, each message of it looked at once.

    Where a message has changed, it and those behind it are read again.
    """

    def __init__(self) -> None:
        self._messages: list[ChatMessage] = []
        self._places = [_Place(ConversationReader(), ())]
        self._labels: list[NDArray[np.int8]] = []

    def read(self, messages: Sequence[Mapping[str, Any]]) -> list[NDArray[np.int8]]:
        """Return the labels of a conversation.

        Args:
            messages: OpenAI chat messages of any shape.

        Returns:
            One ``(num_characters,)`` int8 array per message; values as in `Region`.
        """
        given = [chat_message(message) for message in messages]
        self._go_back(_num_common(self._messages, given))
        for message in given[len(self._messages) :]:
            place, labels = self._places[-1].read(message)
            self._messages.append(message)
            self._places.append(place)
            self._labels.append(labels)
        return list(self._labels)

    def peek(
        self, messages: Sequence[Mapping[str, Any]], message: Mapping[str, Any]
    ) -> NDArray[np.int8]:
        """Return the labels of a message that follows a conversation and may still grow."""
        self.read(messages)
        return self._places[-1].read(chat_message(message))[1]

    def _go_back(self, num_messages: int) -> None:
        del self._messages[num_messages:], self._labels[num_messages:]
        del self._places[num_messages + 1 :]


def _labels(turn: Turn, speakers: Iterable[Speaker]) -> NDArray[np.int8]:
    grid = SegmentGrid(last_of(turn, speakers))
    return np.repeat(winners(grid.ask(DEFAULT_RULES).sum(axis=0)), grid.lengths)


def _num_common(left: Sequence[ChatMessage], right: Sequence[ChatMessage]) -> int:
    pairs = zip(left, right, strict=False)
    return next((index for index, (a, b) in enumerate(pairs) if a != b), min(len(left), len(right)))
