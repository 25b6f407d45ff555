"""Split a tokenized trace into windows that fit an LLM's context."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class TokenWindow:
    """A run of a trace's tokens that goes through the LLM by itself: ``start`` to ``end``."""

    start: int
    end: int

    @property
    def num_tokens(self) -> int:
        """Number of tokens."""
        return self.end - self.start


@dataclass(frozen=True, slots=True)
class WindowReport:
    """What became of one trace.

    Attributes:
        num_tokens: Tokens of the trace, each in exactly one window.
        num_windows: Windows it was split into; 1 if it fits.
        cut_messages: Indices of messages longer than a window, which were cut into pieces.
    """

    num_tokens: int
    num_windows: int
    cut_messages: tuple[int, ...] = ()

    @property
    def is_split(self) -> bool:
        """Whether the trace did not fit into one window."""
        return self.num_windows > 1


def split_into_windows(
    message_index: NDArray[np.int32], max_tokens: int
) -> tuple[tuple[TokenWindow, ...], WindowReport]:
    """Split at message boundaries, filling each window as far as whole messages go.

    A message longer than a window starts a window of its own and is cut wherever one is full; what
    follows its last piece goes on in the same window.

    Args:
        message_index: ``(n,)``, the message of each token, not falling. Text before the first
            message (index -1) stays with it.
        max_tokens: The most tokens in a window.

    Raises:
        ValueError: max_tokens is below 1.
    """
    if max_tokens < 1:
        raise ValueError(f"max_tokens must be 1 or above, got {max_tokens}")
    num_tokens = int(message_index.size)
    messages = np.maximum(message_index, 0)
    starts = np.flatnonzero(np.diff(messages, prepend=-1))
    windows: list[TokenWindow] = []
    cut_messages = []
    window_start = 0
    for start, end in pairwise([*starts.tolist(), num_tokens]):
        if end - window_start <= max_tokens:
            continue
        if start > window_start:
            windows.append(TokenWindow(window_start, start))
            window_start = start
        if end - start > max_tokens:
            cut_messages.append(int(messages[start]))
        while end - window_start > max_tokens:
            windows.append(TokenWindow(window_start, window_start + max_tokens))
            window_start += max_tokens
    if num_tokens > window_start:
        windows.append(TokenWindow(window_start, num_tokens))
    return tuple(windows), WindowReport(num_tokens, len(windows), tuple(cut_messages))
