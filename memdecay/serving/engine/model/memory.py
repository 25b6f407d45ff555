"""What a session has of the model's forwards: its cache, its tags and its view on attention."""

from __future__ import annotations

import torch
from torch import Tensor

from memdecay.runtime.cache import DecayCache
from memdecay.runtime.layer import bookkeeping
from memdecay.runtime.observer import AttentionRecorder
from memdecay.runtime.streaming import StreamingTagger
from memdecay.runtime.transcript import TokenTable


class SessionMemory:
    """The cache of one sequence and what keeps its tags and its attention averages up to date.

    Args:
        cache: The sequence's cache; its batch has one row.
        tagger: Gives its tokens their tags; None leaves them ordinary context.
    """

    def __init__(self, cache: DecayCache, tagger: StreamingTagger | None) -> None:
        self.cache = cache
        self.tagger = tagger
        watches = cache.config.attention_feedback and cache.policy.uses_attention
        self.recorder = AttentionRecorder(cache) if watches else None

    @property
    def num_tokens(self) -> int:
        """Tokens seen so far."""
        return self.cache.tokens_seen

    def take_in(self, start: int, tokens: TokenTable, hidden_states: Tensor | None) -> None:
        """Tag the tokens of a forward that has just run, then evict if there are too many.

        Args:
            start: Tokens seen before the forward.
            tokens: The forward's tokens.
            hidden_states: Output of the layer that the tagger reads, ``(1, n, hidden_size)``.
        """
        if self.tagger is not None and hidden_states is not None:
            with bookkeeping():
                features = torch.from_numpy(tokens.position_features(start)).unsqueeze(0)
                update = self.tagger.push(hidden_states, features.to(hidden_states.device))
                self.cache.set_tags(update.start, update.tags.importance, update.tags.region_probs)
        self.cache.mark_template(torch.from_numpy(tokens.input_ids).unsqueeze(0))
        self.cache.evict()

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
