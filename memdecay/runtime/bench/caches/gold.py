"""Tags from a trace's own labels: what a perfect classifier would give."""

from __future__ import annotations

from contextlib import AbstractContextManager

import numpy as np
from numpy.typing import NDArray
from transformers import PreTrainedModel

from memdecay.classifier.llm import LanguageModel
from memdecay.classifier.propagation import PropagationConfig
from memdecay.classifier.regions import NUM_REGIONS, Region, RegionTable
from memdecay.runtime.cache import DecayCache
from memdecay.runtime.hooks import Describe
from memdecay.runtime.label_tags import LabelTags
from memdecay.runtime.tagging import Reading, Writing


class GoldTagger:
    """Tags a recorded conversation's tokens with labels that are known beforehand.

    Args:
        regions: Region of each token of the conversation, ``(n,)``, int8; unlabelled ones, below
            zero, are ordinary context.
        region_table: Initial scores and decay factors.
    """

    def __init__(self, regions: NDArray[np.int8], region_table: RegionTable | None = None) -> None:
        self._regions = regions
        self._region_table = region_table or RegionTable()

    @property
    def region_table(self) -> RegionTable:
        """Initial scores and decay factors."""
        return self._region_table

    def check_llm(self, llm: LanguageModel) -> None:
        """Do nothing: labels fit every language model."""

    def begin(self, llm: LanguageModel) -> _GoldTagging:  # noqa: ARG002
        """Return the tagger of the conversation."""
        regions = np.where(self._regions < 0, Region.ORDINARY_CONTEXT, self._regions)
        probs = np.eye(NUM_REGIONS, dtype=np.float32)[regions]
        return _GoldTagging(probs, LabelTags(self._region_table, PropagationConfig()))


class _GoldTagging:
    def __init__(self, probs: NDArray[np.float32], tags: LabelTags) -> None:
        self._probs = probs
        self._tags = tags

    def attached(
        self, model: PreTrainedModel, cache: DecayCache, describe: Describe
    ) -> AbstractContextManager[None]:
        del describe
        return self._tags.attached(model, cache)

    def read(self, reading: Reading) -> None:
        self._tags.replace_from(0, self._probs[: reading.num_tokens])

    def write(self, writing: Writing, cache: DecayCache) -> None:
        """Do nothing: what the model writes has no labels."""
