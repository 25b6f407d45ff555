"""Text that is handed on while its tokens are still being chosen."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

_UNFINISHED = "\N{REPLACEMENT CHARACTER}"


def decode_text(tokenizer: Any, token_ids: Sequence[int]) -> str:
    """Return the text of tokens, without control tokens and with every space as it is."""
    text: str = tokenizer.decode(
        list(token_ids), skip_special_tokens=True, clean_up_tokenization_spaces=False
    )
    return text


class TextStream:
    """Hands on the new text after each token; a character of several tokens waits for its last.

    Args:
        tokenizer: A transformers tokenizer.
        on_text: Gets each new piece; the pieces together are the whole text.
    """

    def __init__(self, tokenizer: Any, on_text: Callable[[str], None]) -> None:
        self._tokenizer = tokenizer
        self._on_text = on_text
        self._num_sent = 0

    def update(self, token_ids: Sequence[int]) -> None:
        """Take all tokens so far."""
        text = decode_text(self._tokenizer, token_ids)
        if not text.endswith(_UNFINISHED):
            self._send(text)

    def finish(self, text: str) -> None:
        """Hand on what still waits of the whole text."""
        self._send(text)

    def _send(self, text: str) -> None:
        if len(text) > self._num_sent:
            self._on_text(text[self._num_sent :])
            self._num_sent = len(text)
