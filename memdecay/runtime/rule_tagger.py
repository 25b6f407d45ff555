"""Region tags by rules over the conversation's text: the tagger that needs no training."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from transformers import PreTrainedModel

from memdecay.classifier.llm import LanguageModel
from memdecay.classifier.propagation import PropagationConfig
from memdecay.classifier.regions import Region, RegionTable
from memdecay.classifier.rules import GrowingLabels
from memdecay.classifier.rules.confidence import rule_region_probs
from memdecay.classifier.token_regions import UNLABELLED, most_covering, rendered_regions
from memdecay.runtime.cache import DecayCache
from memdecay.runtime.hooks import Describe
from memdecay.runtime.label_tags import LabelTags
from memdecay.runtime.tagging import Reading, Writing
from memdecay.runtime.text_stream import decode_text

_MIN_TOKENS_BETWEEN = 16
_REPLY_PARTS = 16


class RuleTagger:
    """Tags tokens by the rules of `memdecay.classifier.rules`; works with any language model.

    The probabilities are the shares of the regions where the rules named one, see
    `memdecay.classifier.rules.confidence`. The template's own tokens count with the message that
    they enclose.

    Args:
        region_table: Initial scores and decay factors.
        propagation: How importance spreads.
    """

    def __init__(
        self,
        region_table: RegionTable | None = None,
        propagation: PropagationConfig | None = None,
    ) -> None:
        self._region_table = region_table or RegionTable()
        self._propagation = propagation or PropagationConfig()

    @property
    def region_table(self) -> RegionTable:
        """Initial scores and decay factors."""
        return self._region_table

    def check_llm(self, llm: LanguageModel) -> None:
        """Do nothing: rules fit every language model."""

    def begin(self, llm: LanguageModel) -> RuleTagging:
        """Return the tagger of a new conversation."""
        return RuleTagging(llm.tokenizer, LabelTags(self._region_table, self._propagation))


class RuleTagging:
    """The rules' labels of one conversation, see `RuleTagger.begin`.

    Labels of read messages stay: the rules look at nothing that comes later. So each message is
    looked at once, and again only where its memory was put back from elsewhere. A reply is
    labelled again from its beginning whenever it has grown by some tokens, and once more at its
    end; the longer it is, the less often.
    """

    def __init__(self, tokenizer: Any, tags: LabelTags) -> None:
        self._tokenizer = tokenizer
        self._tags = tags
        self._labels = GrowingLabels()
        self._num_looked_at = 0

    def attached(
        self, model: PreTrainedModel, cache: DecayCache, describe: Describe
    ) -> AbstractContextManager[None]:
        """Set the labels of each forward's tokens, until the block ends."""
        del describe  # Nothing is read from the forwards.
        return self._tags.attached(model, cache)

    def set_in(self, cache: DecayCache, start: int) -> None:
        """Give the cache the tags of all tokens from ``start`` on that it has seen."""
        self._tags.set_in(cache, start)

    def __len__(self) -> int:
        """Return how many tokens have labels."""
        return len(self._tags)

    def reset(self) -> None:
        """Begin a new conversation."""
        self._tags.replace_from(0, self._tags.region_probs[:0])
        self._labels = GrowingLabels()
        self._num_looked_at = 0

    def state_dict(self) -> dict[str, Tensor]:
        """Return the labels, as tensors that `load_state_dict` takes."""
        return {"region_probs": torch.from_numpy(self._tags.region_probs)}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Go on from where `state_dict` was taken, between two turns.

        Raises:
            KeyError: A part is missing.
        """
        self._tags.replace_from(0, state["region_probs"].cpu().numpy())
        self._num_looked_at = 0

    def read(self, reading: Reading) -> None:
        """Label the tokens that come next."""
        self._num_looked_at = 0
        num_new = reading.num_tokens - reading.num_same
        labels = _token_labels(self._labels.read(reading.messages), reading)
        self._tags.replace_from(
            reading.num_same, rule_region_probs(labels[len(labels) - num_new :])
        )

    def write(self, writing: Writing, cache: DecayCache) -> None:
        """Label the reply as far as it is written, every few tokens."""
        num_tokens = len(writing.token_ids)
        if not num_tokens:
            return
        interval = max(_MIN_TOKENS_BETWEEN, self._num_looked_at // _REPLY_PARTS)
        is_due = num_tokens - self._num_looked_at >= interval
        if not (is_due or writing.is_finished or num_tokens == 1):
            self._go_on(writing)
            return
        text = decode_text(self._tokenizer, writing.token_ids)
        characters = self._labels.peek(writing.messages, {"role": "assistant", "content": text})
        labels = _reply_labels(characters, writing.token_ids, self._tokenizer)
        self._tags.replace_from(writing.start, rule_region_probs(labels))
        self._tags.set_in(cache, writing.start)
        self._num_looked_at = num_tokens

    def _go_on(self, writing: Writing) -> None:
        """Let the newest token be what the one before it is until the next look."""
        known = len(self._tags)
        newest = self._tags.tags(known - 1, known).region_probs[0].numpy()
        self._tags.replace_from(writing.start + len(writing.token_ids) - 1, newest)


def _token_labels(message_labels: Sequence[NDArray[np.int8]], reading: Reading) -> NDArray[np.int8]:
    """Return the region of each token of a rendered conversation, ``(n,)`` int8."""
    characters = rendered_regions(message_labels, reading.rendered)
    tokens = reading.tokens
    labels = most_covering(characters, tokens.offsets[:, 0], tokens.offsets[:, 1])
    labels[tokens.is_special] = UNLABELLED
    _fill_within_messages(labels, tokens.message_index)
    # A system prompt that the template brings along.
    labels[(labels == UNLABELLED) & (tokens.message_index < 0)] = Region.SYSTEM_INSTRUCTION
    return labels


def _fill_within_messages(labels: NDArray[np.int8], message_index: NDArray[np.int32]) -> None:
    """Give unlabelled tokens the label before them in their message, else the one after."""
    places = np.arange(labels.size)
    is_known = labels != UNLABELLED
    before = np.maximum.accumulate(np.where(is_known, places, -1))
    after = np.minimum.accumulate(np.where(is_known, places, labels.size)[::-1])[::-1]
    for near in (before, after):
        inside = (near >= 0) & (near < labels.size)
        near = np.where(inside, near, 0)
        takes = (labels == UNLABELLED) & inside & (message_index[near] == message_index)
        labels[takes] = labels[near[takes]]


def _reply_labels(characters: NDArray[np.int8], token_ids: Any, tokenizer: Any) -> NDArray[np.int8]:
    """Return the region of each token of a reply from those of its characters, ``(n,)`` int8."""
    ends = _ends(token_ids, len(characters), tokenizer)
    starts = np.concatenate([[0], ends[:-1]])
    regions = most_covering(characters, starts, ends)
    # A token without characters of its own is a part of the next one that has some.
    _fill_within_messages(regions, np.zeros(regions.size, np.int32))
    return regions


def _ends(token_ids: Any, num_characters: int, tokenizer: Any) -> NDArray[np.int64]:
    """Return where in the reply's text each token ends, ``(n,)`` int64.

    Tokens are decoded one by one. Where that gives other lengths than the whole (pieces of one
    character), the places are stretched to fit: near enough for stretches of text.
    """
    lengths = [len(decode_text(tokenizer, [id_])) for id_ in token_ids]
    ends = np.cumsum(lengths, dtype=np.int64)
    if ends[-1] != num_characters:
        ends = np.round(ends * (num_characters / max(int(ends[-1]), 1))).astype(np.int64)
    return ends
