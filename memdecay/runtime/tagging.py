"""What a session asks of whatever tags its tokens."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol

from transformers import PreTrainedModel

from memdecay.classifier.llm import LanguageModel
from memdecay.classifier.regions import RegionTable
from memdecay.classifier.rendering import RenderedConversation
from memdecay.classifier.tokenization import TokenizedConversation
from memdecay.runtime.cache import DecayCache
from memdecay.runtime.hooks import Describe, tag_tokens
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


def begin_tagging(tagger: SessionTagger, llm: LanguageModel) -> ConversationTagger:
    """Return the tagger of a new conversation."""
    return _StateTagging(tagger) if isinstance(tagger, RegionTagger) else tagger.begin(llm)


class _StateTagging:
    """The classifier: all that it reads comes from the forwards themselves."""

    def __init__(self, tagger: RegionTagger) -> None:
        self._streaming = StreamingTagger(tagger)

    def attached(
        self, model: PreTrainedModel, cache: DecayCache, describe: Describe
    ) -> AbstractContextManager[None]:
        return tag_tokens(model, cache, self._streaming, describe)

    def read(self, reading: Reading) -> None:
        pass

    def write(self, writing: Writing, cache: DecayCache) -> None:
        pass
