"""What is known of a reply's text while it is being written."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from memdecay.classifier.text import NUM_TEXT_FEATURES, TextReader, reader_behind
from memdecay.runtime.text_stream import decode_text

TOKENS_BETWEEN_LOOKS = 16


class ReplyText:
    """Text features of a reply's newest token.

    They depend on the reply as far as it is written, and are those of the piece of text that the
    token belongs to. The text is looked at anew when a line ends and after every
    `TOKENS_BETWEEN_LOOKS` tokens; tokens in between have the features of the one before.

    Args:
        tokenizer: The model's tokenizer.
        reader_behind: Returns a reader that has read some messages, nobody else's.
    """

    def __init__(
        self,
        tokenizer: Any,
        reader_behind: Callable[[Sequence[Mapping[str, Any]]], TextReader] = reader_behind,
    ) -> None:
        self._tokenizer = tokenizer
        self._reader_behind = reader_behind
        self.forget()

    def forget(self) -> None:
        """Be ready for another reply."""
        self._reader: TextReader | None = None
        self._row = np.zeros(NUM_TEXT_FEATURES, np.float32)
        self._num_looked_at = 0

    def newest(
        self, messages: Sequence[Mapping[str, Any]], token_ids: Sequence[int]
    ) -> NDArray[np.float32]:
        """Return the features ``(NUM_TEXT_FEATURES,)`` of a reply's newest token.

        Args:
            messages: The conversation that is answered.
            token_ids: The reply's tokens so far, at least one; each call has one more than the
                call before, or begins another reply.
        """
        num_tokens = len(token_ids)
        if self._reader is None or num_tokens < self._num_looked_at:
            self.forget()
            self._reader = self._reader_behind(messages)
        if self._is_due(token_ids):
            text = decode_text(self._tokenizer, token_ids)
            rows = self._reader.peek({"role": "assistant", "content": text}).rows
            self._row = rows[-1].copy() if len(rows) else np.zeros(NUM_TEXT_FEATURES, np.float32)
            self._num_looked_at = num_tokens
        return self._row

    def _is_due(self, token_ids: Sequence[int]) -> bool:
        if not self._num_looked_at or len(token_ids) - self._num_looked_at >= TOKENS_BETWEEN_LOOKS:
            return True
        # The first token of a new line belongs to another piece than the one before it.
        return "\n" in decode_text(self._tokenizer, token_ids[-2:-1])
