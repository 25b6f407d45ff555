"""Which tokens are arguments of tool calls, and which were copied from far back."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from memdecay.classifier.rendering import RenderedConversation, RenderedMessage
from memdecay.classifier.rules.conversation import read_conversation
from memdecay.classifier.rules.parts import PartKind

_ARGUMENTS = re.compile(r'"(?:arguments|parameters|input)"\s*:\s*(.*?)(?=\n</tool_call>|\Z)', re.S)


def argument_characters(
    messages: Sequence[Mapping[str, Any]], rendered: RenderedConversation
) -> NDArray[np.bool_]:
    """Tell which characters of a rendered conversation are arguments of the agent's tool calls.

    In a structured call these are the arguments as the template writes them (the whole call where
    it writes them unlike JSON). A call that is written as text counts whole.

    Args:
        messages: The conversation.
        rendered: Its text.

    Returns:
        ``(len(text),)``, bool.
    """
    is_argument = np.zeros(max(1, len(rendered.text)), np.bool_)
    for message in rendered.messages:
        for start, end in _structured(message, rendered.text):
            is_argument[start:end] = True
    for turn in read_conversation(messages, lookahead=False).turns:
        message = rendered.messages[turn.index]
        shift = message.content_start - message.content_skip
        for part in turn.parts:
            if part.kind is PartKind.CALL:
                start = max(part.start + shift, message.content_start)
                is_argument[start : min(part.end + shift, message.content_end)] = True
    return is_argument


def _structured(message: RenderedMessage, text: str) -> Iterator[tuple[int, int]]:
    calls = text[message.calls_start : message.calls_end]
    if not calls:
        return
    found = list(_ARGUMENTS.finditer(calls))
    if not found:
        yield message.calls_start, message.calls_end
    for match in found:
        yield message.calls_start + match.start(1), message.calls_start + match.end(1)


def copied_from_far(
    input_ids: NDArray[np.int64], num_tokens: int, distance: int
) -> NDArray[np.bool_]:
    """Tell which tokens belong to a span that was last seen more than some tokens before.

    A span that also stands nearer does not count: its copy is still in any window.

    Args:
        input_ids: ``(n,)``, int64.
        num_tokens: Length from which on equal tokens in a row are a copy.
        distance: Tokens from the span's beginning to that of its newest earlier copy must be more.

    Returns:
        ``(n,)``, bool.

    >>> copied_from_far(np.array([1, 2, 9, 9, 9, 1, 2]), 2, 4).tolist()
    [False, False, False, False, False, True, True]
    """
    is_copied = np.zeros(len(input_ids), np.bool_)
    newest: dict[bytes, int] = {}
    for start in range(len(input_ids) - num_tokens + 1):
        key = input_ids[start : start + num_tokens].tobytes()
        earlier = newest.get(key)
        if earlier is not None and start - earlier > distance:
            is_copied[start : start + num_tokens] = True
        newest[key] = start
    return is_copied
