"""Turn rendered text into tokens that know their message."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, fields
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from memdecay.classifier.errors import ModelError
from memdecay.classifier.features import UNKNOWN_ROLE, position_features, role_code
from memdecay.classifier.rendering import RenderedConversation
from memdecay.classifier.text import NUM_TEXT_FEATURES, ConversationText, ReadText, read_text

NO_MESSAGE = -1
"""The message index of tokens that the template inserts before the first message."""


@dataclass(frozen=True, slots=True)
class TokenizedConversation:
    """The tokens of a rendered conversation; every array has one row a token.

    Attributes:
        input_ids: ``(n,)``, int64.
        offsets: ``(n, 2)``, int64; first character and end in the rendered text.
        is_special: ``(n,)``, bool; control tokens such as ``<|im_start|>``.
        message_index: ``(n,)``, int32; `NO_MESSAGE` before the first message. The generation
            prompt has the index after the last message's.
        position_in_message: ``(n,)``, int32; tokens before this one in its message.
        role: ``(n,)``, int8; see `memdecay.classifier.features.role_code`.
        rendered: What was tokenized; None where the messages' text is not known.
    """

    input_ids: NDArray[np.int64]
    offsets: NDArray[np.int64]
    is_special: NDArray[np.bool_]
    message_index: NDArray[np.int32]
    position_in_message: NDArray[np.int32]
    role: NDArray[np.int8]
    rendered: RenderedConversation | None = field(default=None, repr=False, compare=False)

    @property
    def num_tokens(self) -> int:
        """Number of tokens."""
        return int(self.input_ids.size)

    @property
    def position(self) -> NDArray[np.int32]:
        """``(n,)``, int32; tokens before this one in the conversation."""
        return np.arange(self.num_tokens, dtype=np.int32)

    def first(self, num_tokens: int) -> TokenizedConversation:
        """Return the conversation's first tokens."""
        names = [column.name for column in fields(self) if column.name != "rendered"]
        columns = {name: getattr(self, name)[:num_tokens] for name in names}
        return TokenizedConversation(**columns, rendered=self.rendered)

    def position_features(self) -> NDArray[np.float32]:
        """Return the tokens' features, ``(n, NUM_POSITION_FEATURES)`` float32."""
        return position_features(
            self.position,
            self.position_in_message,
            self.message_index,
            self.role,
            self.text_features(),
        )

    def text_features(self, read: ReadText = read_text) -> NDArray[np.float32]:
        """Return what is known of the tokens' text, ``(n, NUM_TEXT_FEATURES)`` float32.

        Args:
            read: Reads the messages; one that remembers is faster.
        """
        if self.rendered is None:
            return np.zeros((self.num_tokens, NUM_TEXT_FEATURES), np.float32)
        text, rows = self.text_rows(self.rendered, read)
        return text.rows[rows]

    def text_rows(
        self, rendered: RenderedConversation, read: ReadText = read_text
    ) -> tuple[ConversationText, NDArray[np.int32]]:
        """Return the messages' text features, and the row ``(n,)`` of each token in them."""
        text = read(rendered.sources)
        return text, text.token_rows(rendered, self.offsets)


def tokenize(rendered: RenderedConversation, tokenizer: Any) -> TokenizedConversation:
    """Tokenize a rendered conversation, without adding special tokens.

    A control token's text inside a content stays text: a message that quotes ``<|im_end|>`` does
    not end there.

    Raises:
        ModelError: The tokenizer gives no character offsets.
    """
    if not getattr(tokenizer, "is_fast", False):
        raise ModelError(
            f"the tokenizer {type(tokenizer).__name__} gives no character offsets; use a model "
            "that has a fast tokenizer (a tokenizer.json)"
        )
    input_ids, offsets = _encode(rendered, tokenizer)
    message_index = _message_index(rendered, offsets)
    return TokenizedConversation(
        input_ids=input_ids,
        offsets=offsets,
        is_special=np.isin(input_ids, special_ids(tokenizer)),
        message_index=message_index,
        position_in_message=_position_in_run(message_index),
        role=_roles(rendered, message_index),
        rendered=rendered,
    )


def count_control_tokens(text: str, tokenizer: Any) -> int:
    """Return how many control tokens stand in a text, quoted ones included.

    It has that many tokens at least, and each takes the tokenizer a call of its own if quoted.
    """
    pattern = _special_pattern(tokenizer)
    return 0 if pattern is None else sum(1 for _ in pattern.finditer(text))


def _encode(
    rendered: RenderedConversation, tokenizer: Any
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    cuts = _cuts_in_quoted_tokens(rendered, tokenizer)
    bounds = [0, *cuts, len(rendered.text)]
    ids, offsets = [], []
    for start, end in pairwise(bounds):
        encoding = tokenizer(
            rendered.text[start:end],
            add_special_tokens=False,
            return_attention_mask=False,
            return_offsets_mapping=True,
            verbose=False,  # Else a long text is warned about.
        )
        ids.append(np.asarray(encoding["input_ids"], np.int64))
        pairs = np.asarray(encoding["offset_mapping"], np.int64).reshape(-1, 2)
        offsets.append(pairs + start)
    return np.concatenate(ids), np.concatenate(offsets)


def _cuts_in_quoted_tokens(rendered: RenderedConversation, tokenizer: Any) -> list[int]:
    """Return where to cut the text so that control tokens quoted in contents fall apart.

    A cut lies behind the first character of each of them, and one before and after, as the
    tokenizer would cut there anyway.
    """
    pattern = _special_pattern(tokenizer)
    if pattern is None:
        return []
    cuts: set[int] = set()
    for message in rendered.messages:
        for match in pattern.finditer(rendered.text, message.content_start, message.content_end):
            cuts.update((match.start(), match.start() + 1, match.end()))
    return sorted(cuts)


def _special_pattern(tokenizer: Any) -> re.Pattern[str] | None:
    # A control token of one character can't be cut, so it stays what it is.
    texts = [
        token.content
        for token in tokenizer.added_tokens_decoder.values()
        if token.special and len(token.content) > 1
    ]
    longest_first = sorted(texts, key=len, reverse=True)
    return re.compile("|".join(map(re.escape, longest_first))) if longest_first else None


def special_ids(tokenizer: Any) -> list[int]:
    """Return the ids of a tokenizer's control tokens, ascending."""
    added = tokenizer.added_tokens_decoder.items()
    return sorted({*tokenizer.all_special_ids, *(id_ for id_, token in added if token.special)})


def _message_index(rendered: RenderedConversation, offsets: NDArray[np.int64]) -> NDArray[np.int32]:
    starts = np.array([part.start for part in rendered.parts], np.int64)
    index = np.searchsorted(starts, offsets[:, 0], side="right") - 1
    return index.astype(np.int32)


def _position_in_run(message_index: NDArray[np.int32]) -> NDArray[np.int32]:
    """Count from zero within each run of equal message indices."""
    position = np.arange(message_index.size, dtype=np.int32)
    is_first = np.ones(message_index.size, np.bool_)
    is_first[1:] = message_index[1:] != message_index[:-1]
    return position - np.maximum.accumulate(np.where(is_first, position, 0))


def _roles(rendered: RenderedConversation, message_index: NDArray[np.int32]) -> NDArray[np.int8]:
    codes = [*(role_code(part.role) for part in rendered.parts), UNKNOWN_ROLE]
    return np.array(codes, np.int8)[message_index]  # NO_MESSAGE, -1, picks the last.
