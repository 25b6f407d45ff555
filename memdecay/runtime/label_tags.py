"""Tags from known region probabilities, set as the tokens go through the model."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from transformers import PreTrainedModel

from memdecay.classifier.decoder import find_decoder
from memdecay.classifier.propagation import PropagationConfig, importance_of
from memdecay.classifier.regions import NUM_REGIONS, Region, RegionTable
from memdecay.runtime.cache import DecayCache
from memdecay.runtime.layer import bookkeeping
from memdecay.runtime.tagger import Tags


class LabelTags:
    """The region probabilities of a growing sequence, known before its tokens are run.

    Importance comes from them by the same propagation as in the classifier's graph.

    Args:
        region_table: Initial scores.
        propagation: How importance spreads.
    """

    def __init__(self, region_table: RegionTable, propagation: PropagationConfig) -> None:
        self._region_table = region_table
        self._propagation = propagation
        self._probs = np.empty((0, NUM_REGIONS), np.float32)

    def __len__(self) -> int:
        """Return for how many tokens probabilities are known."""
        return len(self._probs)

    @property
    def region_probs(self) -> NDArray[np.float32]:
        """What is known, ``(len, NUM_REGIONS)``, float32."""
        return self._probs

    def replace_from(self, start: int, region_probs: NDArray[np.float32]) -> None:
        """Forget what is known from a token on, and take these probabilities from there.

        Args:
            start: A position at most `len`.
            region_probs: ``(n, NUM_REGIONS)``, float32.

        Raises:
            ValueError: ``start`` is out of range.
        """
        if not 0 <= start <= len(self):
            raise ValueError(f"start must be from 0 to {len(self)}, got {start}")
        self._probs = np.concatenate([self._probs[:start], region_probs])

    def tags(self, start: int, stop: int) -> Tags:
        """Return the tags of the tokens from ``start`` to before ``stop``, in a batch of one row.

        Tokens about which nothing is known yet are ordinary context.
        """
        radius = self._propagation.radius
        first = max(0, start - radius)
        probs = torch.from_numpy(self._known(first, max(stop, min(stop + radius, len(self)))))[None]
        real = probs.new_ones(probs.shape[:2], dtype=torch.bool)
        raised = importance_of(probs, real, self._region_table, self._propagation)
        rows = slice(start - first, stop - first)
        return Tags(probs[:, rows], raised[:, rows])

    def set_in(self, cache: DecayCache, start: int) -> None:
        """Give the cache the tags of all tokens from ``start`` on that it has seen.

        The tokens before them that propagation reaches get theirs again.
        """
        first = max(0, start - self._propagation.radius)
        if first < cache.tokens_seen:
            tags = self.tags(first, cache.tokens_seen)
            cache.set_tags(first, tags.importance, tags.region_probs)

    @contextmanager
    def attached(self, model: PreTrainedModel, cache: DecayCache) -> Iterator[None]:
        """Set the tags of each forward's tokens before anything is evicted, until the block ends.

        Args:
            model: A causal language model.
            cache: Gets the tags; forwards with another cache are left alone.
        """
        decoder = find_decoder(model)
        start = 0

        def before(*_: Any) -> None:
            nonlocal start
            start = cache.tokens_seen

        def after(_: nn.Module, _args: Any, _kwargs: Any, _output: Any) -> None:
            if cache.tokens_seen > start:  # Else the forward used another cache.
                with bookkeeping():
                    self.set_in(cache, start)

        with ExitStack() as stack:
            stack.callback(decoder.register_forward_pre_hook(before).remove)
            stack.callback(decoder.register_forward_hook(after, with_kwargs=True).remove)
            yield

    def _known(self, start: int, stop: int) -> NDArray[np.float32]:
        known = self._probs[start:stop]
        if len(known) == stop - start:
            return known
        ordinary = np.zeros((stop - start - len(known), NUM_REGIONS), np.float32)
        ordinary[:, Region.ORDINARY_CONTEXT] = 1.0
        return np.concatenate([known, ordinary])
