"""The tokens of a growing conversation, and how a new rendering of it continues them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from memdecay.classifier.features import position_features, role_code
from memdecay.classifier.text import NUM_TEXT_FEATURES, ReadText, read_text
from memdecay.classifier.tokenization import TokenizedConversation


def _unknown_text() -> NDArray[np.float16]:
    return np.zeros((0, NUM_TEXT_FEATURES), np.float16)


@dataclass(frozen=True, slots=True)
class TokenTable:
    """Tokens that know their message; every array has one row a token.

    Attributes:
        input_ids: ``(n,)``, int64.
        message_index: ``(n,)``, int32; -1 before the first message.
        position_in_message: ``(n,)``, int32; tokens before this one in its message.
        role: ``(n,)``, int8; see `memdecay.classifier.features.role_code`.
        text: ``(n, NUM_TEXT_FEATURES)``, float16; see `memdecay.classifier.text`. Zeros if left
            out.
    """

    input_ids: NDArray[np.int64]
    message_index: NDArray[np.int32]
    position_in_message: NDArray[np.int32]
    role: NDArray[np.int8]
    text: NDArray[np.float16] = field(default_factory=_unknown_text)

    def __post_init__(self) -> None:
        """Fill in the text features of tokens of which the text is not known."""
        if len(self.text) == 0 < len(self):
            object.__setattr__(self, "text", np.zeros((len(self), NUM_TEXT_FEATURES), np.float16))

    @classmethod
    def empty(cls) -> TokenTable:
        """Return a table without tokens."""
        return cls(
            np.empty(0, np.int64),
            np.empty(0, np.int32),
            np.empty(0, np.int32),
            np.empty(0, np.int8),
        )

    @classmethod
    def of(cls, conversation: TokenizedConversation, read: ReadText = read_text) -> TokenTable:
        """Return the tokens of a conversation.

        Args:
            conversation: The conversation.
            read: Reads its messages; one that remembers is faster.
        """
        return cls(
            conversation.input_ids,
            conversation.message_index,
            conversation.position_in_message,
            conversation.role,
            conversation.text_features(read).astype(np.float16),
        )

    def __len__(self) -> int:
        """Return the number of tokens."""
        return int(self.input_ids.size)

    def part(self, start: int, stop: int) -> TokenTable:
        """Return the tokens from ``start`` to before ``stop``."""
        return TokenTable(*(column[start:stop] for column in self._columns()))

    def followed_by(self, other: TokenTable) -> TokenTable:
        """Return these tokens and then those."""
        pairs = zip(self._columns(), other._columns(), strict=True)
        return TokenTable(*(np.concatenate(pair) for pair in pairs))

    def with_text(self, row: NDArray[np.float32]) -> TokenTable:
        """Return the same tokens, all with the text features ``(NUM_TEXT_FEATURES,)`` given."""
        text = np.broadcast_to(row.astype(np.float16), (len(self), NUM_TEXT_FEATURES))
        return replace(self, text=text)

    def position_features(self, start: int) -> NDArray[np.float32]:
        """Return the features ``(n, num_position_features)`` of a part that begins at ``start``."""
        positions = np.arange(start, start + len(self))
        return position_features(
            positions, self.position_in_message, self.message_index, self.role, self.text
        )

    def _columns(self) -> tuple[NDArray[Any], ...]:
        return tuple(getattr(self, column.name) for column in fields(self))


@dataclass(frozen=True, slots=True)
class Transcript:
    """The tokens so far and the text that they stand for.

    A reply is kept as the tokens that the model chose, which need not be those that the tokenizer
    would make of its text.

    Attributes:
        tokens: The tokens.
        text: Their text.
        reply_start: Where in the text the newest reply begins; the end of the text if none does.
    """

    tokens: TokenTable
    text: str
    reply_start: int

    @classmethod
    def empty(cls) -> Transcript:
        """Return a transcript of nothing."""
        return cls(TokenTable.empty(), "", 0)

    def reply_tokens(self, input_ids: Sequence[int], message_index: int, role: str) -> TokenTable:
        """Return the tokens of a reply, which go on where its head, if there is one, ends.

        Args:
            input_ids: What the model chose.
            message_index: The reply's place in the conversation.
            role: Its role.
        """
        is_other = self.tokens.message_index[::-1] != message_index
        num_head = int(is_other.argmax()) if is_other.any() else len(self.tokens)
        num_new = len(input_ids)
        return TokenTable(
            np.array(input_ids, np.int64),
            np.full(num_new, message_index, np.int32),
            np.arange(num_head, num_head + num_new, dtype=np.int32),
            np.full(num_new, role_code(role), np.int8),
        )

    def with_reply(self, tokens: TokenTable, text: str) -> Transcript:
        """Add a reply."""
        return Transcript(self.tokens.followed_by(tokens), self.text + text, len(self.text))

    def update(
        self, text: str, conversation: TokenizedConversation, rendered: TokenTable | None = None
    ) -> tuple[Transcript, int]:
        """Bring the transcript to a new rendering of the conversation.

        Where the new text begins with the old one, the old tokens stay and the tokens of the rest
        follow; white space that the template trims off the newest reply or puts around it makes no
        difference. Otherwise, and in a raw prompt, which no template has changed, the tokens of the
        new rendering count, from the first that differs.

        Args:
            text: The rendered text.
            conversation: Its tokens.
            rendered: `TokenTable.of` the conversation, where it is known already.

        Returns:
            The new transcript, and how many of the old tokens it begins with.
        """
        if rendered is None:
            rendered = TokenTable.of(conversation)
        for end in (self._end_in(text), self._trimmed_end_in(text)):
            cut = None if end is None else _cut_at(conversation, end)
            if cut is not None:
                tokens = self.tokens.followed_by(rendered.part(cut, len(rendered)))
                return Transcript(tokens, text, len(text)), len(self.tokens)
        num_kept = _num_common(self.tokens.input_ids, rendered.input_ids)
        tokens = self.tokens.part(0, num_kept).followed_by(rendered.part(num_kept, len(rendered)))
        return Transcript(tokens, text, len(text)), num_kept

    def _end_in(self, text: str) -> int | None:
        """Return where in a rendering this text ends; None if it does not begin so."""
        return len(self.text) if text.startswith(self.text) else None

    def _trimmed_end_in(self, text: str) -> int | None:
        """Return the same, whatever white space there is around the newest reply."""
        is_raw = not len(self.tokens) or self.tokens.message_index[-1] < 0
        if is_raw or not text.startswith(self.text[: self.reply_start]):
            return None
        reply = self.text[self.reply_start :].strip()
        rest = text[self.reply_start :]
        start = self.reply_start + (len(rest) - len(rest.lstrip()) if reply else 0)
        return start + len(reply) if text.startswith(reply, start) else None


def _cut_at(conversation: TokenizedConversation, position: int) -> int | None:
    """Return the token that begins at or behind this character; None if one reaches across."""
    starts, ends = conversation.offsets[:, 0], conversation.offsets[:, 1]
    cut = int(np.searchsorted(starts, position, side="left"))
    return None if cut and ends[cut - 1] > position else cut


def _num_common(left: NDArray[np.int64], right: NDArray[np.int64]) -> int:
    num_shared = min(left.size, right.size)
    differs = left[:num_shared] != right[:num_shared]
    return int(differs.argmax()) if differs.any() else num_shared
