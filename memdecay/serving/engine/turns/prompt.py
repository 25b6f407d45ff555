"""A request's prompt: its text, its tokens, and which of them belong to which message."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from memdecay.classifier.errors import MemdecayError
from memdecay.classifier.features import UNKNOWN_ROLE, role_code
from memdecay.classifier.messages import ChatMessage, chat_message
from memdecay.classifier.rendering import RenderedConversation, render
from memdecay.classifier.text import ReadText, read_text
from memdecay.classifier.tokenization import (
    NO_MESSAGE,
    TokenizedConversation,
    count_control_tokens,
    tokenize,
)
from memdecay.runtime.tagging import Reading
from memdecay.runtime.transcript import TokenTable, Transcript
from memdecay.serving.engine.request import ErrorKind, GenerationRequest, RequestRefusedError
from memdecay.serving.engine.turns.limit import PromptLimit
from memdecay.serving.engine.turns.tools import with_tools

_USER, _ASSISTANT, _SYSTEM = (role_code(role) for role in ("user", "assistant", "system"))


@dataclass(frozen=True, slots=True)
class Prompt:
    """What the model reads before it answers.

    Attributes:
        text: The text.
        tokens: Its tokens.
        conversation: The same with each token's place in the text; None if the request came as
            token ids.
        messages: The rendered messages; empty for a raw prompt.
        num_inserted: Messages in front that the request did not have: a system message of tools.
    """

    text: str
    tokens: TokenTable
    conversation: TokenizedConversation | None
    messages: tuple[ChatMessage, ...]
    num_inserted: int

    def continue_from(self, transcript: Transcript) -> tuple[Transcript, int]:
        """Bring a session's transcript to this prompt; see `Transcript.update`.

        Returns:
            The new transcript, and how many of the old tokens it begins with.
        """
        if self.conversation is not None:
            return transcript.update(self.text, self.conversation, self.tokens)
        num_same = num_common(transcript.tokens.input_ids, self.tokens.input_ids)
        return Transcript(self.tokens, self.text, len(self.text)), num_same

    def reading(self, num_same: int, num_tokens: int) -> Reading | None:
        """Return what a tagger is told before the prompt is read; None for a raw prompt.

        Args:
            num_same: Tokens of the session that have their tags already.
            num_tokens: Tokens of the session with the new ones.
        """
        conversation = self.conversation
        if not self.messages or conversation is None or conversation.rendered is None:
            return None
        rendered = conversation.rendered
        return Reading(rendered.sources, rendered, conversation, num_same, num_tokens)

    def answer_tokens(self, transcript: Transcript, token_ids: Sequence[int]) -> TokenTable:
        """Return the tokens of an answer to this prompt."""
        if self.messages:
            return transcript.reply_tokens(token_ids, len(self.messages), "assistant")
        return transcript.reply_tokens(token_ids, NO_MESSAGE, "")

    def pinned_tokens(self, pins: Sequence[int], tokens: TokenTable) -> NDArray[np.bool_]:
        """Tell which tokens belong to some messages of the request.

        Args:
            pins: The messages' places in the request; negative ones count from the end.
            tokens: The prompt's tokens, or a session's for this prompt: answers in it may have
                other tokens than the same text in the prompt.

        Returns:
            ``(len(tokens),)``, bool.
        """
        num_given = len(self.messages) - self.num_inserted
        indices = [index % num_given + self.num_inserted for index in pins]
        is_pinned: NDArray[np.bool_] = np.isin(tokens.message_index, indices)
        return is_pinned

    def newest_user_tokens(self) -> NDArray[np.bool_]:
        """Tell which tokens belong to the last message if it is a user's, ``(n,)``, bool."""
        last = len(self.messages) - 1
        is_user = last >= 0 and role_code(self.messages[last].role) == _USER
        is_own: NDArray[np.bool_] = (self.tokens.message_index == last) & is_user
        return is_own

    def num_system_tokens(self) -> int:
        """Count the tokens before the first message that isn't a system message."""
        roles = [role_code(message.role) for message in self.messages]
        num_system = next((i for i, role in enumerate(roles) if role != _SYSTEM), len(roles))
        return int((self.tokens.message_index < num_system).sum()) if num_system else 0

    def is_answered_from(self, index: int) -> bool:
        """Tell whether the message at this place, the inserted ones counted, is an answer."""
        return index < len(self.messages) and role_code(self.messages[index].role) == _ASSISTANT


def make_prompt(
    request: GenerationRequest,
    tokenizer: Any,
    limit: PromptLimit | None = None,
    read: ReadText = read_text,
) -> Prompt:
    """Render and tokenize a request.

    Args:
        request: The request.
        tokenizer: A transformers tokenizer.
        limit: How long the prompt may be; None for any length.
        read: Reads its messages; one that remembers is faster.

    Raises:
        RequestRefusedError: It can't be rendered, is too long, or gives no tokens.
    """
    with _refusals():
        prompt = _make_prompt(request, tokenizer, limit, read)
    if not len(prompt.tokens):
        raise RequestRefusedError(
            ErrorKind.INVALID_REQUEST, "the prompt has no tokens, expected at least one"
        )
    return prompt


def count_prompt(
    request: GenerationRequest, tokenizer: Any, limit: PromptLimit
) -> NDArray[np.int64]:
    """Return the tokens of a request's prompt, ``(n,)``, with nothing else found out about them.

    Args:
        request: The request.
        tokenizer: A transformers tokenizer.
        limit: Heeded as far as reading would take long; more tokens than fit may be counted.

    Raises:
        RequestRefusedError: It can't be rendered, or is too long.
    """
    with _refusals():
        if isinstance(request.prompt, tuple):
            return _prompt_of_ids(request.prompt, tokenizer).tokens.input_ids
        rendered, _ = _render(request, tokenizer, limit)
        return tokenize(rendered, tokenizer).input_ids


@contextmanager
def _refusals() -> Iterator[None]:
    try:
        yield
    except RequestRefusedError:
        raise
    except (MemdecayError, ValueError, TypeError, OverflowError) as error:
        raise RequestRefusedError(ErrorKind.INVALID_REQUEST, str(error)) from error


def num_common(left: NDArray[np.int64], right: NDArray[np.int64]) -> int:
    """Count the tokens that two sequences ``(n,)`` and ``(m,)`` begin with alike."""
    num_shared = min(left.size, right.size)
    differs = left[:num_shared] != right[:num_shared]
    return int(differs.argmax()) if differs.any() else num_shared


def _make_prompt(
    request: GenerationRequest, tokenizer: Any, limit: PromptLimit | None, read: ReadText
) -> Prompt:
    if isinstance(request.prompt, tuple):
        if limit is not None:
            limit.check_tokens(len(request.prompt))
        return _prompt_of_ids(request.prompt, tokenizer)
    rendered, messages = _render(request, tokenizer, limit)
    conversation = tokenize(rendered, tokenizer)
    if limit is not None:
        # Before the text of each token is looked at, which takes the longest.
        limit.check_tokens(conversation.num_tokens)
    tokens = TokenTable.of(conversation, read)
    num_inserted = len(messages) - len(request.messages)
    return Prompt(rendered.text, tokens, conversation, messages, num_inserted)


def _render(
    request: GenerationRequest, tokenizer: Any, limit: PromptLimit | None
) -> tuple[RenderedConversation, tuple[ChatMessage, ...]]:
    """Return a prompt's text and its messages, of which a raw prompt has none."""
    if limit is not None:
        limit.check_messages(len(request.messages))
    rendered, messages = _rendered(request, tokenizer)
    if limit is not None:
        limit.check_characters(len(rendered.text))
        limit.check_tokens(count_control_tokens(rendered.text, tokenizer), is_whole=False)
    return rendered, messages


def _rendered(
    request: GenerationRequest, tokenizer: Any
) -> tuple[RenderedConversation, tuple[ChatMessage, ...]]:
    if isinstance(request.prompt, str):
        return RenderedConversation(request.prompt, ()), ()
    messages = with_tools(request.messages, request.tools)
    rendered = render(messages, tokenizer, add_generation_prompt=True)
    return rendered, tuple(map(chat_message, messages))


def _prompt_of_ids(token_ids: tuple[int, ...], tokenizer: Any) -> Prompt:
    num_tokens = len(token_ids)
    ids = np.array(token_ids, np.int64)
    if ids.min() < 0 or ids.max() >= len(tokenizer):
        raise ValueError(
            f"prompt has token ids from {ids.min()} to {ids.max()}, this model knows those from 0 "
            f"to {len(tokenizer) - 1}"
        )
    tokens = TokenTable(
        ids,
        np.full(num_tokens, NO_MESSAGE, np.int32),
        np.arange(num_tokens, dtype=np.int32),
        np.full(num_tokens, UNKNOWN_ROLE, np.int8),
    )
    return Prompt(tokenizer.decode(list(token_ids)), tokens, None, (), 0)
