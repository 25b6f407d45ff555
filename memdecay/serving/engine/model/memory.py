"""What a session has of the model's forwards: its cache, its tags and its view on attention."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from memdecay.runtime.cache import DecayCache
from memdecay.runtime.layer import bookkeeping
from memdecay.runtime.observer import AttentionRecorder
from memdecay.runtime.transcript import TokenTable
from memdecay.serving.engine.model.tagging import MemoryTagging


class SessionMemory:
    """The cache of one sequence and what keeps its tags and its attention averages up to date.

    Args:
        cache: The sequence's cache; its batch has one row.
        tagger: Gives its tokens their tags; None leaves them ordinary context.
    """

    def __init__(self, cache: DecayCache, tagger: MemoryTagging | None) -> None:
        self.cache = cache
        self.tagger = tagger
        watches = cache.config.attention_feedback and cache.policy.uses_attention
        self.recorder = AttentionRecorder(cache) if watches else None

    @property
    def num_tokens(self) -> int:
        """Tokens seen so far."""
        return self.cache.tokens_seen

    def take_in(
        self,
        start: int,
        tokens: TokenTable,
        hidden_states: Tensor | None,
        is_pinned: NDArray[np.bool_] | None = None,
    ) -> None:
        """Tag and pin the tokens of a forward that has just run, then evict if there are too many.

        Args:
            start: Tokens seen before the forward.
            tokens: The forward's tokens.
            hidden_states: Output of the layer that the tagger reads, ``(1, n, hidden_size)``.
            is_pinned: Which of the tokens have to stay, ``(n,)``; None for none.

        Raises:
            BudgetError: The pinned tokens leave no room for others.
        """
        if self.tagger is not None:
            with bookkeeping():
                self.tagger.take_in(self.cache, start, tokens, hidden_states)
        self.cache.mark_template(torch.from_numpy(tokens.input_ids).unsqueeze(0))
        if is_pinned is not None:
            for first, last in _runs(is_pinned):
                self.cache.pin(start + first, start + last)
        self.cache.evict()

    def pin_read(self, is_pinned: NDArray[np.bool_]) -> bool:
        """Pin tokens that were read before, and let go what else was pinned.

        Args:
            is_pinned: Which tokens from the first on have to stay, ``(n,)``.

        Returns:
            Whether all of them are still there; those that are gone can't be pinned.

        Raises:
            BudgetError: The pinned tokens leave no room for others.
        """
        self.cache.unpin()
        positions = self.cache.slots.positions.flatten().cpu().numpy()
        is_kept = np.zeros(len(is_pinned), np.bool_)
        is_kept[positions[positions < len(is_pinned)]] = True
        for first, last in _runs(is_pinned & is_kept):
            self.cache.pin(first, last)
        return bool(is_kept[is_pinned].all())

    def take_back(self, num_tokens: int) -> bool:
        """Leave only the first ``num_tokens``, or nothing where some of the others were evicted.

        Returns:
            Whether they could be left.
        """
        num_seen = self.num_tokens
        if num_tokens >= num_seen:
            return True
        try:
            self.cache.crop(num_tokens - num_seen)
        except ValueError:
            self.forget()
            return False
        if self.tagger is not None:
            self.tagger.crop(num_tokens)
        return True

    def forget(self) -> None:
        """Go back to nothing, and free the buffers."""
        self.cache.reset()
        if self.tagger is not None:
            self.tagger.reset()


def _runs(flags: NDArray[np.bool_]) -> list[tuple[int, int]]:
    """Return where each run of true flags begins and ends."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], flags, [False]]).astype(np.int8)))
    return [(int(first), int(last)) for first, last in edges.reshape(-1, 2)]
