"""What a session asks of whatever tags its tokens."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor
from transformers import PreTrainedModel

from memdecay.classifier.llm import LanguageModel
from memdecay.classifier.regions import RegionTable
from memdecay.classifier.rendering import RenderedConversation
from memdecay.classifier.text import NUM_TEXT_FEATURES
from memdecay.classifier.tokenization import TokenizedConversation
from memdecay.runtime.cache import DecayCache
from memdecay.runtime.hooks import Describe, ForwardStates, tag_tokens
from memdecay.runtime.reply_text import ReplyText
from memdecay.runtime.streaming import StreamingTagger
from memdecay.runtime.tagger import RegionTagger

ChatMessages = Sequence[Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Reading:
    """A conversation that a session is about to read on in.

    Attributes:
        messages: The conversation.
        rendered: Its text.
        tokens: The tokens of that text.
        num_same: How many of the session's tokens so far stay; they need not be those of
            ``tokens``, since a reply keeps the tokens that the model chose.
        num_tokens: The session's tokens with the new ones, which are the last of ``tokens``.
    """

    messages: ChatMessages
    rendered: RenderedConversation
    tokens: TokenizedConversation
    num_same: int
    num_tokens: int


@dataclass(frozen=True, slots=True)
class Writing:
    """A reply as far as it is written.

    Attributes:
        messages: The conversation that it answers.
        token_ids: The tokens chosen so far; the last of them has not been run yet.
        start: Position of the first of them.
        is_finished: Whether no more follow.
    """

    messages: ChatMessages
    token_ids: Sequence[int]
    start: int
    is_finished: bool


class ConversationTagger(Protocol):
    """Tags the tokens of one conversation as it is read and written."""

    def attached(
        self, model: PreTrainedModel, cache: DecayCache, describe: Describe
    ) -> AbstractContextManager[None]:
        """Tag each forward's tokens before anything is evicted, until the block ends."""

    def read(self, reading: Reading) -> None:
        """Learn which tokens come next; called before they are run."""

    def write(self, writing: Writing, cache: DecayCache) -> None:
        """Learn how the reply goes on; called before its newest token is run."""


class TokenTagger(Protocol):
    """Makes taggers of conversations; a session takes one of these or a `RegionTagger`."""

    @property
    def region_table(self) -> RegionTable:
        """Initial scores and decay factors."""

    def check_llm(self, llm: LanguageModel) -> None:
        """Raise an `ArtifactError` if the tagger was made for another language model."""

    def begin(self, llm: LanguageModel) -> ConversationTagger:
        """Return the tagger of a new conversation."""


SessionTagger = RegionTagger | TokenTagger

_NOWHERE = -1


def begin_tagging(tagger: SessionTagger, llm: LanguageModel) -> ConversationTagger:
    """Return the tagger of a new conversation."""
    if isinstance(tagger, RegionTagger):
        return _StateTagging(tagger, llm.tokenizer)
    return tagger.begin(llm)


class _StateTagging:
    """The classifier: it reads the forwards' hidden states and the text that the session knows."""

    def __init__(self, tagger: RegionTagger, tokenizer: Any) -> None:
        self._streaming = StreamingTagger(tagger)
        self._reply_text = ReplyText(tokenizer)
        self._newest = np.zeros(NUM_TEXT_FEATURES, np.float32)
        self._newest_position = _NOWHERE

    def attached(
        self, model: PreTrainedModel, cache: DecayCache, describe: Describe
    ) -> AbstractContextManager[None]:
        def describe_with_reply(states: ForwardStates) -> Tensor:
            features = describe(states)
            place = self._newest_position - states.start
            if 0 <= place < features.shape[1]:
                features[:, place, -NUM_TEXT_FEATURES:] = torch.tensor(self._newest)
            return features

        return tag_tokens(model, cache, self._streaming, describe_with_reply)

    def read(self, reading: Reading) -> None:
        self._reply_text.forget()
        if reading.num_same <= self._newest_position:
            self._newest_position = _NOWHERE

    def write(self, writing: Writing, cache: DecayCache) -> None:
        del cache  # The next forward sets the tags.
        if not writing.token_ids:
            return
        # The last token of a reply is run with what is read after it, so it is kept until then.
        self._newest = self._reply_text.newest(writing.messages, writing.token_ids)
        self._newest_position = writing.start + len(writing.token_ids) - 1
