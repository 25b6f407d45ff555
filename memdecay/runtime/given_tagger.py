"""Regions that are known beforehand, token by token."""

from __future__ import annotations

from contextlib import AbstractContextManager

import numpy as np
from numpy.typing import NDArray
from transformers import PreTrainedModel

from memdecay.classifier.llm import LanguageModel
from memdecay.classifier.propagation import PropagationConfig
from memdecay.classifier.regions import NUM_REGIONS, RegionTable
from memdecay.runtime.cache import DecayCache
from memdecay.runtime.hooks import Describe
from memdecay.runtime.label_tags import LabelTags
from memdecay.runtime.tagging import Reading, Writing


class GivenTagger:
    """Tags the tokens of one recorded conversation with regions that it was given.

    Args:
        regions: ``(n,)``, int8; values as in `Region`. Tokens behind them are ordinary context.
        region_table: Initial scores and decay factors.
        propagation: How importance spreads.
    """

    def __init__(
        self,
        regions: NDArray[np.int8],
        region_table: RegionTable | None = None,
        propagation: PropagationConfig | None = None,
    ) -> None:
        self._region_table = region_table or RegionTable()
        self._propagation = propagation or PropagationConfig()
        self._probs = np.eye(NUM_REGIONS, dtype=np.float32)[regions]

    @property
    def region_table(self) -> RegionTable:
        """Initial scores and decay factors."""
        return self._region_table

    def check_llm(self, llm: LanguageModel) -> None:
        """Do nothing: regions that were given fit every language model."""

    def begin(self, llm: LanguageModel) -> _GivenTagging:  # noqa: ARG002  The protocol gives it.
        """Return the tagger of the conversation."""
        tags = LabelTags(self._region_table, self._propagation)
        tags.replace_from(0, self._probs)
        return _GivenTagging(tags)


class _GivenTagging:
    def __init__(self, tags: LabelTags) -> None:
        self._tags = tags

    def attached(
        self, model: PreTrainedModel, cache: DecayCache, describe: Describe
    ) -> AbstractContextManager[None]:
        del describe  # Nothing is read from the forwards.
        return self._tags.attached(model, cache)

    def read(self, reading: Reading) -> None:
        pass

    def write(self, writing: Writing, cache: DecayCache) -> None:
        pass
