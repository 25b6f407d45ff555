"""What a policy's name in the benchmark stands for: the policy, its tags, what is left out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

from memdecay.classifier.errors import ConfigError
from memdecay.classifier.regions import NUM_REGIONS
from memdecay.runtime.bench.caches.headwise_methods import HEADWISE
from memdecay.runtime.config import CacheConfig
from memdecay.runtime.policies import POLICIES

TAG_SOURCES = ("none", "rules", "classifier", "gold")
LITERATURE = ("window", "streaming", "h2o", "tova", "snapkv", "keydiff", "knorm", "selective")
"""Policies of the product that are methods from the literature."""

BASELINES = (*LITERATURE, "learned")
"""Policies of the product that the decaying cache is compared with: all only evict.

``learned`` is its own foresight without regions, decay and fading, so that what is won by a
distilled score alone counts against it, not for it.
"""

MODIFIERS: Mapping[str, Callable[[CacheConfig], CacheConfig]] = MappingProxyType(
    {
        "no-attention": lambda config: replace(config, attention_feedback=False),
        "no-fading": lambda config: replace(config, fading=replace(config.fading, steps=())),
        "no-foresight": lambda config: replace(config, foresight=None),
        "no-caps": lambda config: replace(
            config,
            max_region_share=1.0,
            max_share_per_region=None,
            regions=replace(config.regions, max_shares=(None,) * NUM_REGIONS),
        ),
        "no-early": lambda config: replace(config, early=replace(config.early, watermark=1.0)),
        "watermarks": lambda config: replace(config, high_watermark=0.8, low_watermark=0.7),
        "marks": lambda config: replace(
            config,
            early=replace(config.early, watermark=0.6),
            high_watermark=0.8,
            low_watermark=0.7,
            fading=replace(config.fading, room_share=0.1),
        ),
        "blocks": lambda config: replace(config, block_tokens=16),
        "late-tagging": lambda config: replace(
            config, late_tagging=replace(config.late_tagging, max_share=0.05)
        ),
        "visits": lambda config: replace(
            config, feedback=replace(config.feedback, visit_strength=1.0)
        ),
        "floods": lambda config: replace(
            config, feedback=replace(config.feedback, rate_strength=1.0)
        ),
        "pack-ahead": lambda config: replace(
            config, fading=replace(config.fading, staging_share=0.03)
        ),
    }
)
"""What an ablation changes in the cache's configuration, by name."""


@dataclass(frozen=True, slots=True)
class Variant:
    """One entry of the benchmark.

    Attributes:
        name: As it was given: ``policy``, ``policy@tags`` or ``policy@tags+modifier``.
        policy: A name of `POLICIES` or `HEADWISE`.
        tags: Where regions come from, one of `TAG_SOURCES`; None for what the benchmark was given.
        modifiers: Names of `MODIFIERS`.
    """

    name: str
    policy: str
    tags: str | None = None
    modifiers: tuple[str, ...] = ()

    @property
    def is_headwise(self) -> bool:
        """Whether each layer or head keeps its own tokens; such a cache is for comparison only."""
        return self.policy in HEADWISE

    @property
    def is_baseline(self) -> bool:
        """Whether the decaying cache is compared with it: it only evicts and knows no regions."""
        return self.is_headwise or self.policy in BASELINES

    @property
    def takes_foresight(self) -> bool:
        """Whether its cache may be given a foresight head."""
        return not (self.is_headwise or self.policy in LITERATURE)

    def configure(self, config: CacheConfig) -> CacheConfig:
        """Apply the modifiers."""
        for name in self.modifiers:
            config = MODIFIERS[name](config)
        return config


def parse_variant(name: str) -> Variant:
    """Read a variant's name.

    Raises:
        ConfigError: A part of it is unknown.

    >>> parse_variant("memdecay@gold+no-caps").tags
    'gold'
    """
    base, *modifiers = name.split("+")
    policy, _, tags = base.partition("@")
    _check_known("policy", policy, (*POLICIES, *HEADWISE))
    if "@" in base:
        _check_known("source of tags", tags, TAG_SOURCES)
    for modifier in modifiers:
        _check_known("modifier", modifier, tuple(MODIFIERS))
    if policy in HEADWISE and (tags or modifiers):
        raise ConfigError(f"{policy} is for comparison only and takes no tags or modifiers")
    return Variant(name, policy, tags or None, tuple(modifiers))


def _check_known(kind: str, name: str, known: tuple[str, ...]) -> None:
    if name not in known:
        raise ConfigError(f"unknown {kind} {name!r}; expected one of {', '.join(known)}")
