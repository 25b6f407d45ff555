"""What gives a session's tokens their tags, and is moved about with its memory."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import torch
from torch import Tensor

from memdecay.classifier.llm import LanguageModel
from memdecay.runtime.cache import DecayCache
from memdecay.runtime.rule_tagger import RuleTagger, RuleTagging
from memdecay.runtime.streaming import StreamingTagger
from memdecay.runtime.tagger import RegionTagger
from memdecay.runtime.tagging import Reading, Writing
from memdecay.runtime.transcript import TokenTable

ServedTagger = RegionTagger | RuleTagger
"""Taggers whose sessions can be saved."""


class MemoryTagging(Protocol):
    """Keeps the tags of one session's tokens up to date."""

    def read(self, reading: Reading) -> None:
        """Learn which tokens come next, before they are run."""

    def write(self, writing: Writing, cache: DecayCache) -> None:
        """Learn how the answer goes on, before its newest token is run."""

    def take_in(
        self, cache: DecayCache, start: int, tokens: TokenTable, hidden_states: Tensor | None
    ) -> None:
        """Tag the tokens of a forward that has just run.

        Args:
            cache: The session's cache.
            start: Tokens seen before the forward.
            tokens: The forward's tokens.
            hidden_states: Output of the layer that a classifier reads, ``(1, n, hidden_size)``.
        """

    def crop(self, num_tokens: int) -> None:
        """Go back to the first tokens."""

    def reset(self) -> None:
        """Go back to nothing."""

    def state_dict(self) -> dict[str, Tensor]:
        """Return what `load_state_dict` needs to go on, as tensors."""

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Go on from where `state_dict` was taken.

        Raises:
            KeyError: A part is missing.
        """


class ClassifierTagging:
    """Tags by a classifier, which reads the forwards' hidden states.

    Args:
        tagger: The classifier.
    """

    def __init__(self, tagger: RegionTagger) -> None:
        self._streaming = StreamingTagger(tagger)

    def read(self, reading: Reading) -> None:
        """Do nothing: tokens bring their text with them."""

    def write(self, writing: Writing, cache: DecayCache) -> None:
        """Do nothing: tokens bring their text with them."""

    def take_in(
        self, cache: DecayCache, start: int, tokens: TokenTable, hidden_states: Tensor | None
    ) -> None:
        """Tag the tokens of a forward, and those before them whose tags may change."""
        if hidden_states is None:
            return
        features = torch.from_numpy(tokens.position_features(start)).unsqueeze(0)
        update = self._streaming.push(hidden_states, features.to(hidden_states.device))
        cache.set_tags(update.start, update.tags.importance, update.tags.region_probs)

    def crop(self, num_tokens: int) -> None:
        """Go back to the first tokens."""
        self._streaming.crop(num_tokens)

    def reset(self) -> None:
        """Go back to nothing."""
        self._streaming.reset()

    def state_dict(self) -> dict[str, Tensor]:
        """Return what is known of the newest tokens."""
        return self._streaming.state_dict()

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Go on from where `state_dict` was taken.

        Raises:
            KeyError: A part is missing.
        """
        self._streaming.load_state_dict(state)


class ServedRuleTagging:
    """Tags by rules, which read the conversation's text.

    Args:
        tagging: The rules' labels of the session.
    """

    def __init__(self, tagging: RuleTagging) -> None:
        self._tagging = tagging

    def read(self, reading: Reading) -> None:
        """Label the tokens that come next."""
        self._tagging.read(reading)

    def write(self, writing: Writing, cache: DecayCache) -> None:
        """Label the answer as far as it is written."""
        if writing.start <= len(self._tagging):
            self._tagging.write(writing, cache)

    def take_in(
        self, cache: DecayCache, start: int, tokens: TokenTable, hidden_states: Tensor | None
    ) -> None:
        """Set the tags of the forward's tokens."""
        del tokens, hidden_states  # The labels are known.
        self._tagging.set_in(cache, start)

    def crop(self, num_tokens: int) -> None:
        """Do nothing: `read` says which labels stay."""

    def reset(self) -> None:
        """Go back to nothing."""
        self._tagging.reset()

    def state_dict(self) -> dict[str, Tensor]:
        """Return the labels."""
        return self._tagging.state_dict()

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Go on from where `state_dict` was taken.

        Raises:
            KeyError: A part is missing.
        """
        self._tagging.load_state_dict(state)


def begin_tagging(tagger: ServedTagger, llm: LanguageModel) -> MemoryTagging:
    """Return the tagging of a new session."""
    if isinstance(tagger, RegionTagger):
        return ClassifierTagging(tagger)
    return ServedRuleTagging(tagger.begin(llm))
