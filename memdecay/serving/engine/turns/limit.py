"""How long a prompt may be, found out before time is spent on one that is too long."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from memdecay.serving.engine.request import ErrorKind, RequestRefusedError


@dataclass(frozen=True, slots=True)
class PromptLimit:
    """What a prompt must keep to; long ones are refused at the first number that tells.

    A text of megabytes takes the tokenizer a minute, which the requests of others would wait.

    Attributes:
        max_context: Most tokens of prompt and answer.
        num_answer: Tokens that the answer must have room for.
        max_characters: Most characters that a prompt may have, see `longest_text`.
    """

    max_context: int
    num_answer: int
    max_characters: int

    def check_messages(self, num_messages: int) -> None:
        """Check a conversation's length in messages, each of which has a token at least.

        Raises:
            RequestRefusedError: They are more than fit.
        """
        if num_messages > self.max_context:
            raise RequestRefusedError(
                ErrorKind.TOO_LONG,
                f"the conversation has {num_messages} messages, more than the model's context of "
                f"{self.max_context} tokens can hold; send a shorter one",
            )

    def check_characters(self, num_characters: int) -> None:
        """Check a prompt's text.

        Raises:
            RequestRefusedError: It is longer than any that fits.
        """
        if num_characters > self.max_characters:
            raise RequestRefusedError(
                ErrorKind.TOO_LONG,
                f"the prompt has {num_characters} characters, more than the model's context of "
                f"{self.max_context} tokens can hold; send a shorter conversation",
            )

    def check_tokens(self, num_tokens: int, *, is_whole: bool = True) -> None:
        """Check a prompt's tokens.

        Args:
            num_tokens: How many there are.
            is_whole: Whether these are all of them.

        Raises:
            RequestRefusedError: Prompt and answer do not fit the model's context.
        """
        if num_tokens + self.num_answer > self.max_context:
            count = num_tokens if is_whole else f"at least {num_tokens}"
            raise RequestRefusedError(
                ErrorKind.TOO_LONG,
                f"the prompt has {count} tokens and its answer may have {self.num_answer}, "
                f"together more than the model's context of {self.max_context}; send a shorter "
                "conversation or lower max_tokens",
            )


def longest_text(tokenizer: Any, num_tokens: int) -> int:
    """Return how many characters so many tokens have at most.

    Args:
        tokenizer: A transformers tokenizer.
        num_tokens: Number of tokens.
    """
    return num_tokens * max(map(len, tokenizer.get_vocab()))
