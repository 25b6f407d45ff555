"""Eviction policies: each gives every kept token a score, and the lowest go first.

A new policy is a class with `EvictionPolicy`'s members and a line in `POLICIES`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Protocol

import torch
from torch import Tensor

from memdecay.classifier.errors import ConfigError
from memdecay.runtime.config import CacheConfig, FeedbackConfig
from memdecay.runtime.metadata import Slots
from memdecay.runtime.scoring import log_decayed_score


class EvictionPolicy(Protocol):
    """How tokens are ranked, and which guards the cache puts around the ranking."""

    @property
    def evicts(self) -> bool:
        """Whether tokens are ever evicted; if not, the buffers grow."""

    @property
    def protects_sinks(self) -> bool:
        """Whether the first tokens of a row always stay."""

    @property
    def caps_regions(self) -> bool:
        """Whether a region's share of the kept tokens is capped."""

    @property
    def uses_attention(self) -> bool:
        """Whether the scores read `Slots.attention`."""

    def score(self, slots: Slots, keys: tuple[Tensor, ...]) -> Tensor:
        """Rank the kept tokens; the cache itself sees to padding and protected tokens.

        Args:
            slots: The kept tokens.
            keys: Keys of every full-attention layer, each of shape
                ``(batch, num_key_value_heads, kept, head_dim)``, read-only.

        Returns:
            Scores, shape ``(batch, kept)``, float, without NaN; the highest stay.
        """


@dataclass(frozen=True, slots=True)
class _NewestStay:
    """Rank by position alone."""

    evicts: bool = True
    protects_sinks: bool = True
    caps_regions: bool = False
    uses_attention: bool = False

    def score(self, slots: Slots, keys: tuple[Tensor, ...]) -> Tensor:  # noqa: ARG002
        """Return minus the age in tokens."""
        return -slots.ages.to(torch.float32)


@dataclass(frozen=True, slots=True)
class RegionPolicy:
    """Rank by the plain formula: importance * exp(-decay * age)."""

    evicts: bool = True
    protects_sinks: bool = True
    caps_regions: bool = True
    uses_attention: bool = False

    def score(self, slots: Slots, keys: tuple[Tensor, ...]) -> Tensor:  # noqa: ARG002
        """Return the logarithm of the decayed score, which ranks the same and can't underflow."""
        return log_decayed_score(slots.importance, slots.decay, slots.ages)


@dataclass(frozen=True, slots=True)
class MemdecayPolicy:
    """Rank by the attention a token gets, bent by its region's decayed score.

    score = (floor + attention / mean attention of the row) * (importance * exp(-decay * age))^w

    The attention is the running average in `Slots.attention`, averaged over neighbouring slots.
    A token that is visited keeps its score while its region's part fades, so it fades more slowly
    than one that nobody reads. A token not observed yet counts as average. Without tags every
    token is ordinary context, and age takes the region's place.

    Attributes:
        feedback: Floor, exponent w and pooling width.
    """

    feedback: FeedbackConfig
    evicts: bool = True
    protects_sinks: bool = True
    caps_regions: bool = True
    uses_attention: bool = True

    def score(self, slots: Slots, keys: tuple[Tensor, ...]) -> Tensor:  # noqa: ARG002
        """Return the logarithm of the score above."""
        attention = _pool(_relative_attention(slots), self.feedback.pool_width)
        prior = log_decayed_score(slots.importance, slots.decay, slots.ages)
        floor = self.feedback.attention_floor
        return torch.log(floor + attention) + self.feedback.prior_weight * prior


def _relative_attention(slots: Slots) -> Tensor:
    """Divide the attention by its mean over the row's observed real tokens."""
    is_known = ~slots.attention.isnan() & ~slots.is_pad
    known = slots.attention.masked_fill(~is_known, 0.0)
    mean = known.sum(dim=1, keepdim=True) / is_known.sum(dim=1, keepdim=True).clamp_min(1)
    relative = known / mean.clamp_min(torch.finfo(mean.dtype).tiny)
    return relative.masked_fill(~is_known, 1.0)


def _pool(attention: Tensor, width: int) -> Tensor:
    return torch.nn.functional.avg_pool1d(
        attention.unsqueeze(1), width, stride=1, padding=width // 2, count_include_pad=False
    ).squeeze(1)


POLICIES: Mapping[str, Callable[[CacheConfig], EvictionPolicy]] = MappingProxyType(
    {
        "full": lambda _: _NewestStay(evicts=False),
        "window": lambda _: _NewestStay(protects_sinks=False),
        "streaming": lambda _: _NewestStay(),
        "region": lambda _: RegionPolicy(),
        "memdecay": lambda config: MemdecayPolicy(config.feedback),
    }
)
"""Policies by name: ``full`` keeps everything, ``window`` the newest tokens, ``streaming`` the
sinks and the newest, ``region`` follows the region formula, ``memdecay`` adds attention to it."""


def make_policy(config: CacheConfig) -> EvictionPolicy:
    """Build the policy that a configuration names.

    Raises:
        ConfigError: No policy has this name.
    """
    try:
        return POLICIES[config.policy](config)
    except KeyError:
        raise ConfigError(
            f"unknown policy {config.policy!r}; expected one of {', '.join(POLICIES)}"
        ) from None
