"""One cache under test: tokens in, logits out, and copies for asides."""

from __future__ import annotations

import copy
from contextlib import AbstractContextManager
from typing import Protocol

from torch import Tensor

from memdecay.classifier.llm import LanguageModel
from memdecay.runtime.cache import DecayCache
from memdecay.runtime.engine import Engine
from memdecay.runtime.tagging import ConversationTagger
from memdecay.runtime.transcript import TokenTable


class Runner(Protocol):
    """Runs a sequence through a language model with some cache."""

    @property
    def peak_bytes(self) -> int:
        """Most bytes of keys and values at one time."""

    @property
    def tokens_kept(self) -> int:
        """Tokens that the cache holds now."""

    def attached(self) -> AbstractContextManager[None]:
        """Keep on the model what `run` needs, until the block ends."""

    def run(self, tokens: TokenTable, *, keeps_all_logits: bool = True) -> Tensor:
        """Run the tokens that come next.

        Args:
            tokens: One forward's tokens, at least one.
            keeps_all_logits: Whether to return the logits of all tokens, not of the last only.

        Returns:
            Logits ``(n or 1, vocab_size)``.
        """

    def fork(self) -> Runner:
        """Return a runner that goes on from here and leaves this one as it is."""


class CacheRunner:
    """A cache of the product, run by the product's engine.

    Args:
        llm: The language model.
        cache: An empty cache.
        tagging: Tags the conversation's tokens; None leaves them ordinary context.
    """

    def __init__(
        self, llm: LanguageModel, cache: DecayCache, tagging: ConversationTagger | None = None
    ) -> None:
        self._llm = llm
        self._cache = cache
        self._engine = Engine(llm, cache, tagging)

    @property
    def peak_bytes(self) -> int:
        """Most bytes of the cache's buffers at one time."""
        return self._cache.peak_bytes

    @property
    def tokens_kept(self) -> int:
        """Tokens that the cache holds now."""
        return self._cache.tokens_kept

    def attached(self) -> AbstractContextManager[None]:
        """Keep the cache's hooks on the model until the block ends."""
        return self._engine.attached()

    def run(self, tokens: TokenTable, *, keeps_all_logits: bool = True) -> Tensor:
        """Run the tokens that come next; return logits ``(n or 1, vocab_size)``."""
        return self._engine.run(tokens, keeps_all_logits=keeps_all_logits)

    def fork(self) -> CacheRunner:
        """Return a runner with a copy of the cache; new tokens are ordinary context there."""
        return CacheRunner(self._llm, copy.deepcopy(self._cache))
