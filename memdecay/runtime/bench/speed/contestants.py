"""What takes part: transformers' own cache, and the caches under test, all run in the same way."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor
from transformers import DynamicCache

from memdecay.classifier.decoder import find_decoder
from memdecay.classifier.llm import LanguageModel
from memdecay.classifier.tokenization import special_ids
from memdecay.runtime.bench.caches.variants import Variant
from memdecay.runtime.bench.speed.config import SpeedConfig
from memdecay.runtime.bench.speed.timed import (
    ATTENTION,
    OBSERVING,
    TAGGING,
    TimedCache,
    TimedTagger,
    timed_attention,
)
from memdecay.runtime.bench.speed.timing import PartTimers
from memdecay.runtime.config import CacheConfig
from memdecay.runtime.foresight.head import ForesightHead
from memdecay.runtime.forward_call import ForwardCall
from memdecay.runtime.hooks import ForwardStates, attach_memory, describe_by_position
from memdecay.runtime.precision.rotary import RotaryFrequencies
from memdecay.runtime.rehearsal import rehearse_fading
from memdecay.runtime.tagger import RegionTagger

BASELINE = "DynamicCache"
"""The name of transformers' own cache among the contestants."""


class Contestant(Protocol):
    """One cache and the forwards that use it."""

    name: str
    timers: PartTimers

    @property
    def cache(self) -> Any:
        """What goes to the model's forward."""

    @property
    def budget_tokens(self) -> int | None:
        """Tokens at full precision that the cache may hold; None without a budget."""

    @property
    def tokens_kept(self) -> int:
        """Tokens that the cache holds."""

    @property
    def kv_bytes(self) -> int:
        """Bytes of keys and values that the cache holds."""

    @property
    def peak_bytes(self) -> int:
        """Most of them at one time."""

    def prepare(self) -> None:
        """Do beforehand what only a process's first steps would pay for."""

    def attached(self) -> Any:
        """Keep on the model what the cache needs, until the block ends."""


class Baseline:
    """transformers' `DynamicCache` and nothing else.

    Args:
        llm: The language model.
        timers: Get the time of the attention.
    """

    name = BASELINE
    budget_tokens = None

    def __init__(self, llm: LanguageModel, timers: PartTimers) -> None:
        self.timers = timers
        self.cache = DynamicCache(config=llm.model.config)
        self._decoder = find_decoder(llm.model)

    @property
    def tokens_kept(self) -> int:
        """Tokens that the cache holds."""
        return int(self.cache.get_seq_length())

    @property
    def kv_bytes(self) -> int:
        """Bytes of keys and values that the cache holds."""
        layers = [layer for layer in self.cache.layers if layer.is_initialized]
        return sum(states.nbytes for layer in layers for states in (layer.keys, layer.values))

    @property
    def peak_bytes(self) -> int:
        """The same, as the cache only grows; copies made while it grows are not counted."""
        return self.kv_bytes

    def prepare(self) -> None:
        """Do nothing: there is nothing to load."""

    @contextmanager
    def attached(self) -> Iterator[None]:
        """Time the attention, if the timers are on, until the block ends."""
        with timed_attention(self._decoder, ATTENTION, self.timers):
            yield


class Candidate:
    """A cache of the product, tagged, watched and made to forget as in a session.

    Args:
        llm: The language model; its tokenizer may be None.
        variant: The policy and what is left out.
        config: The cache's configuration.
        tagger: The classifier; None leaves every token ordinary context.
        timers: Get the time of the parts.
    """

    def __init__(
        self,
        llm: LanguageModel,
        variant: Variant,
        config: CacheConfig,
        tagger: RegionTagger | None,
        timers: PartTimers,
    ) -> None:
        self.name = variant.name
        self.timers = timers
        self._model = llm.model
        self._decoder = find_decoder(llm.model)
        table = None if tagger is None else tagger.region_table
        ids = [] if llm.tokenizer is None else special_ids(llm.tokenizer)
        frequencies = RotaryFrequencies.of(self._decoder)
        self.cache = TimedCache(llm.model.config, config, table, frequencies, ids)
        self.cache.timers = timers
        self._tagger = None if tagger is None else TimedTagger(tagger, timers)

    @property
    def budget_tokens(self) -> int | None:
        """Tokens at full precision that the cache may hold; None without a budget."""
        return self.cache.config.budget_tokens if self.cache.policy.evicts else None

    @property
    def tokens_kept(self) -> int:
        """Tokens that the cache holds."""
        return self.cache.tokens_kept

    @property
    def kv_bytes(self) -> int:
        """Bytes of the cache's buffers."""
        return self.cache.allocated_bytes

    @property
    def peak_bytes(self) -> int:
        """Most of them at one time."""
        return self.cache.peak_bytes

    def prepare(self) -> None:
        """Load the kernels that fading needs."""
        rehearse_fading(self._decoder, self.cache)

    @contextmanager
    def attached(self) -> Iterator[None]:
        """Keep the cache's hooks, and timers that are on, on the model until the block ends."""
        with ExitStack() as stack:
            stack.enter_context(timed_attention(self._decoder, ATTENTION, self.timers))
            memory = attach_memory(self._model, self.cache, self._tagger, self._describe)
            stack.enter_context(memory)
            if self.cache.config.attention_feedback and self.cache.policy.uses_attention:
                stack.enter_context(timed_attention(self._decoder, OBSERVING, self.timers))
            yield

    def _describe(self, states: ForwardStates) -> Tensor:
        with self.timers.part(TAGGING):
            return describe_by_position(states)


@dataclass(frozen=True, slots=True)
class Lineup:
    """Makes the contestants.

    Attributes:
        llm: The language model.
        variants: What is compared with the baseline.
        config: The budget, protected tokens and storage.
        tagger: The classifier for variants with tags; None for none.
        foresight: Foresees tokens' use for the policies that go by it; None for nothing.
    """

    llm: LanguageModel
    variants: tuple[Variant, ...]
    config: SpeedConfig
    tagger: RegionTagger | None
    foresight: ForesightHead | None = None

    def cache_config(self, variant: Variant, seen: int) -> CacheConfig:
        """Return the configuration of a variant's cache for so many tokens seen.

        Raises:
            BudgetError: The budget can't hold the protected tokens.
        """
        return variant.configure(
            CacheConfig(
                budget_tokens=self.config.budget_tokens(seen),
                num_recent=self.config.num_recent,
                policy=variant.policy,
                storage_dtype=self.config.kv_dtype,
                foresight=self.foresight if variant.takes_foresight else None,
            )
        )

    def chunk_tokens(self, seen: int) -> int:
        """Return the chunk that fits every cache's budget.

        Raises:
            BudgetError: The budget can't hold the protected tokens.
        """
        configs = [self.cache_config(variant, seen) for variant in self.variants]
        return min([self.config.chunk_tokens, *(config.max_chunk_tokens for config in configs)])

    def make(self, seen: int, timers: PartTimers) -> list[Contestant]:
        """Return the baseline and a candidate for each variant, with empty caches.

        Raises:
            BudgetError: The budget can't hold the protected tokens.
            ModelError: The model has layers that the cache does not know.
        """
        contestants: list[Contestant] = [Baseline(self.llm, timers)]
        for variant in self.variants:
            tagger = None if variant.tags == "none" else self.tagger
            config = self.cache_config(variant, seen)
            contestants.append(Candidate(self.llm, variant, config, tagger, timers))
        return contestants


class Forward:
    """Runs random tokens through the model with one contestant's cache.

    Args:
        llm: The language model.
    """

    def __init__(self, llm: LanguageModel) -> None:
        self._llm = llm
        self._call = ForwardCall.of(llm.model)

    def __call__(self, contestant: Contestant, input_ids: Tensor) -> None:
        """Run tokens ``(1, n)``, int64, that follow those which the cache has seen."""
        options = self._call.options(contestant.cache, logits_to_keep=1)
        with torch.inference_mode():
            self._llm.model(input_ids=input_ids, **options)
