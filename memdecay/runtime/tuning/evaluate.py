"""What a cache would do at a snapshot's moment, and how far it strays from there on."""

from __future__ import annotations

import torch

from memdecay.classifier.decoder import find_decoder
from memdecay.classifier.llm import LanguageModel
from memdecay.classifier.propagation import PropagationConfig, importance_of
from memdecay.classifier.region_settings import RegionSettings
from memdecay.classifier.tokenization import special_ids
from memdecay.runtime.bench.caches.budget import cache_config
from memdecay.runtime.bench.quality.config import QualityConfig
from memdecay.runtime.cache import DecayCache
from memdecay.runtime.config import CacheConfig
from memdecay.runtime.forward_call import ForwardCall
from memdecay.runtime.layer import bookkeeping
from memdecay.runtime.precision.rotary import RotaryFrequencies
from memdecay.runtime.preparation import with_head
from memdecay.runtime.tuning.snapshot import Snapshot, mean_divergence

POLICY = "memdecay"


class SnapshotJudge:
    """Fades a snapshot's past into a budget and lets the model read on from there.

    The whole past fades at once, where a session fades it little by little; the attention averages
    are those of a full cache.

    Args:
        llm: The language model.
        budget: Share of the past's bytes at full precision, above 0, at most 1.
        propagation: How importance spreads; None for the default.
    """

    def __init__(
        self, llm: LanguageModel, budget: float, propagation: PropagationConfig | None = None
    ) -> None:
        self._llm = llm
        self._budget = budget
        self._propagation = propagation or PropagationConfig()
        self._frequencies = RotaryFrequencies.of(find_decoder(llm.model))
        self._template_ids = special_ids(llm.tokenizer)
        self._call = ForwardCall.of(llm.model)

    def config(self, num_past: int, settings: RegionSettings | None) -> CacheConfig:
        """Return the configuration of the cache after so many tokens.

        Args:
            num_past: Tokens of the past.
            settings: What the regions weigh; None for a cache without regions.

        Raises:
            BudgetError: The budget can't hold the protected tokens and a chunk.
        """
        config = cache_config(POLICY, self._budget, num_past, QualityConfig())
        config = with_head(config, self._llm)
        return config if settings is None else config.with_regions(settings)

    def judge(self, snapshot: Snapshot, settings: RegionSettings | None) -> float:
        """Return the mean divergence on what follows, nats a token.

        Args:
            snapshot: The moment.
            settings: How the regions are scored; None for a cache without regions.

        Raises:
            BudgetError: The budget can't hold the protected tokens and a chunk.
        """
        cache = self._faded(snapshot, settings)
        next_ids = snapshot.input_ids[snapshot.num_past :].unsqueeze(0).to(self._llm.device)
        with torch.inference_mode():
            output = self._llm.model(input_ids=next_ids, **self._call.options(cache))
        return mean_divergence(snapshot, output.logits[0])

    def _faded(self, snapshot: Snapshot, settings: RegionSettings | None) -> DecayCache:
        llm = self._llm
        config = self.config(snapshot.num_past, settings)
        cache = DecayCache(
            llm.model.config,
            config,
            None if settings is None else settings.table,
            self._frequencies,
            self._template_ids,
        )
        with bookkeeping():
            for layer, keys, values in zip(
                cache.layers, snapshot.keys, snapshot.values, strict=True
            ):
                # Not through the cache: it would warn of more tokens than the budget has room for.
                layer.update(*(part[None].to(llm.device, llm.dtype) for part in (keys, values)))
            if settings is not None:
                probs = snapshot.region_probs[None]
                real = probs.new_ones(probs.shape[:2], dtype=torch.bool)
                importance = importance_of(probs, real, settings.table, self._propagation)
                cache.set_tags(0, importance, probs)
            cache.observe_attention(snapshot.attention[None].to(llm.device), 1.0)
            cache.mark_template(snapshot.input_ids[None, : snapshot.num_past])
        cache.make_room(1)
        return cache
