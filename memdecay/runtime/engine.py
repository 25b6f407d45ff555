"""Runs tokens through a language model into its decaying cache, tagging them on the way."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import torch
from torch import Tensor

from memdecay.classifier.llm import LanguageModel
from memdecay.runtime.attach import attach
from memdecay.runtime.cache import DecayCache
from memdecay.runtime.forward_call import ForwardCall
from memdecay.runtime.hooks import ForwardStates
from memdecay.runtime.tagging import ConversationTagger
from memdecay.runtime.transcript import TokenTable

logger = logging.getLogger(__name__)


class Engine:
    """One sequence's forwards.

    Args:
        llm: The language model.
        cache: Its cache.
        tagger: Gives each token its tags; None leaves them ordinary context.
    """

    def __init__(
        self, llm: LanguageModel, cache: DecayCache, tagger: ConversationTagger | None
    ) -> None:
        self._llm = llm
        self._cache = cache
        self._tagger = tagger
        self._call = ForwardCall.of(llm.model)
        self._features: Tensor | None = None
        self._has_warned = False

    @contextmanager
    def attached(self) -> Iterator[None]:
        """Keep the hooks on the model, which every `run` needs, until the block ends."""
        model = self._llm.model
        with ExitStack() as stack:
            if self._tagger is not None:
                # First in, so that tokens have their tags when the eviction hook runs.
                stack.enter_context(self._tagger.attached(model, self._cache, self._describe))
            stack.enter_context(attach(model, self._cache))
            yield

    def run(self, tokens: TokenTable, *, keeps_all_logits: bool = False) -> Tensor:
        """Run the tokens that follow those which the cache has seen.

        Args:
            tokens: One forward's tokens, at least one.
            keeps_all_logits: Whether to return the logits of all tokens, not of the last only.

        Returns:
            Logits ``(n or 1, vocab_size)`` in the model's dtype.
        """
        start = self._cache.tokens_seen
        self._warn_of_context(start + len(tokens))
        if self._tagger is not None:
            self._features = torch.from_numpy(tokens.position_features(start)).unsqueeze(0)
        input_ids = torch.from_numpy(tokens.input_ids).to(self._llm.device).unsqueeze(0)
        options = self._call.options(self._cache, 0 if keeps_all_logits else 1)
        with torch.inference_mode():
            logits: Tensor = self._llm.model(input_ids=input_ids, **options).logits[0]
        return logits if keeps_all_logits else logits[-1:]

    def take_back(self, num_tokens: int) -> None:
        """Leave only the first ``num_tokens`` in the cache.

        The cache can't give back tokens of which some were evicted. It is emptied then, and all
        tokens have to be run again.
        """
        num_seen = self._cache.tokens_seen
        if num_tokens >= num_seen:
            return
        try:
            self._cache.crop(num_tokens - num_seen)
        except ValueError:
            logger.warning(
                "The conversation's past has changed from token %d on, where tokens were evicted "
                "already: all of it is read again. Appending messages, and a chat template that "
                "does not rewrite earlier ones, avoids this.",
                num_tokens,
            )
            self._cache.reset()

    def _describe(self, _: ForwardStates) -> Tensor:
        assert self._features is not None, "run() sets the features before each forward"
        return self._features

    def _warn_of_context(self, num_tokens: int) -> None:
        if num_tokens > self._llm.max_context and not self._has_warned:
            self._has_warned = True
            logger.warning(
                "The conversation has grown past the %d tokens that %s was made for; its answers "
                "may get worse. Start a new session, or use a model with a longer context.",
                self._llm.max_context,
                self._llm.name,
            )
