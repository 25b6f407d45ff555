"""Build the cache under test for one trace."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from memdecay.classifier.errors import ConfigError
from memdecay.classifier.llm import LanguageModel
from memdecay.classifier.region_settings import RegionSettings
from memdecay.runtime.bench.caches.budget import cache_config
from memdecay.runtime.bench.caches.gold import GoldTagger
from memdecay.runtime.bench.caches.headwise import HeadwiseRunner
from memdecay.runtime.bench.caches.headwise_methods import HEADWISE
from memdecay.runtime.bench.caches.runner import CacheRunner, Runner
from memdecay.runtime.bench.caches.variants import Variant
from memdecay.runtime.bench.quality.case import QualityCase
from memdecay.runtime.bench.quality.config import QualityConfig
from memdecay.runtime.config import CacheConfig
from memdecay.runtime.foresight.head import ForesightHead
from memdecay.runtime.policies import make_policy
from memdecay.runtime.preparation import make_cache
from memdecay.runtime.tagging import Reading, SessionTagger, begin_tagging

_ANY_BUDGET = 1024


@dataclass(frozen=True, slots=True)
class Contestants:
    """What all caches of a benchmark are made from.

    Attributes:
        llm: The language model.
        config: Chunks and protected tokens.
        taggers: Taggers by source of tags; those missing were not given.
        default_tags: The source for variants that name none.
        regions: Settings of the regions; None for the defaults.
        foresight: Foresees tokens' use for the product's cache and ``learned``; None for nothing.
    """

    llm: LanguageModel
    config: QualityConfig
    taggers: Mapping[str, SessionTagger] = field(default_factory=lambda: MappingProxyType({}))
    default_tags: str = "none"
    regions: RegionSettings | None = None
    foresight: ForesightHead | None = None

    def tags_of(self, variant: Variant) -> str:
        """Return where a variant's regions come from; methods that know no regions get none."""
        if variant.is_baseline or variant.policy == "full":
            return "none"
        return variant.tags or self.default_tags

    def check(self, variant: Variant, cases: Sequence[QualityCase]) -> None:
        """Refuse a variant for which something is missing.

        Raises:
            ConfigError: It needs a tagger or a foresight head that was not given, or labels that a
                trace has not.
        """
        make_policy(self._settled(variant, CacheConfig(_ANY_BUDGET, policy=_policy(variant))))
        source = self.tags_of(variant)
        if source == "gold":
            for case in cases:
                if case.trace.regions is None:
                    raise ConfigError(
                        f"{variant.name} takes its regions from labels, but the trace "
                        f"{case.trace.id!r} has none; give labelled traces"
                    )
        if source not in ("none", "gold") and source not in self.taggers:
            raise ConfigError(
                f"{variant.name} takes its regions from {source}, which was not given; add "
                "--classifier, or take them from rules or none"
            )

    def cache_config(self, variant: Variant, budget: float, num_tokens: int) -> CacheConfig:
        """Return the configuration of a variant's cache.

        Raises:
            BudgetError: The budget can't hold the protected tokens and a chunk.
        """
        config = cache_config(_policy(variant), budget, num_tokens, self.config)
        return self._settled(variant, config)

    def _settled(self, variant: Variant, config: CacheConfig) -> CacheConfig:
        config = replace(config, foresight=self.foresight if variant.takes_foresight else None)
        if self.regions is not None and not variant.is_baseline:
            config = config.with_regions(self.regions)
        return variant.configure(config)

    def make(self, variant: Variant, budget: float, case: QualityCase) -> Runner:
        """Return a runner with an empty cache.

        Raises:
            BudgetError: The budget can't hold the protected tokens and a chunk.
        """
        config = self.cache_config(variant, budget, case.num_tokens)
        if variant.is_headwise:
            return HeadwiseRunner(self.llm, HEADWISE[variant.policy], config)
        tagger = self._tagger(variant, case)
        cache = make_cache(self.llm, config, tagger)
        if tagger is None:
            return CacheRunner(self.llm, cache)
        tagging = begin_tagging(tagger, self.llm)
        num_tokens = case.num_tokens
        tagging.read(Reading(case.trace.messages, case.rendered, case.tokens, 0, num_tokens))
        return CacheRunner(self.llm, cache, tagging)

    def _tagger(self, variant: Variant, case: QualityCase) -> SessionTagger | None:
        source = self.tags_of(variant)
        if source == "none":
            return None
        if source == "gold":
            table = None if self.regions is None else self.regions.table
            return GoldTagger(case.regions, table)
        return self.taggers[source]


def _policy(variant: Variant) -> str:
    """Return the product's policy; per-head caches have a configuration but choose themselves."""
    return "streaming" if variant.is_headwise else variant.policy
