"""The eviction policies by name. A new one is a class like the others and a line in `POLICIES`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from memdecay.classifier.errors import ConfigError
from memdecay.runtime.config import CacheConfig
from memdecay.runtime.policies.base import EvictionPolicy
from memdecay.runtime.policies.h2o import H2oPolicy
from memdecay.runtime.policies.keys import KeyPolicy, key_difference, negative_key_norm
from memdecay.runtime.policies.learned import LearnedPolicy
from memdecay.runtime.policies.memdecay import MemdecayPolicy
from memdecay.runtime.policies.recency import NewestStay
from memdecay.runtime.policies.region import RegionPolicy
from memdecay.runtime.policies.selective import SelectivePolicy
from memdecay.runtime.policies.snapkv import SnapKvPolicy
from memdecay.runtime.policies.tova import TovaPolicy

POLICIES: Mapping[str, Callable[[CacheConfig], EvictionPolicy]] = MappingProxyType(
    {
        "full": lambda _: NewestStay(evicts=False),
        "window": lambda _: NewestStay(protects_sinks=False),
        "streaming": lambda _: NewestStay(),
        "h2o": lambda _: H2oPolicy(),
        "tova": lambda _: TovaPolicy(),
        "snapkv": lambda _: SnapKvPolicy(),
        "keydiff": lambda _: KeyPolicy(key_difference),
        "knorm": lambda _: KeyPolicy(negative_key_norm),
        "selective": lambda _: SelectivePolicy(),
        "learned": LearnedPolicy.of,
        "region": lambda _: RegionPolicy(),
        "memdecay": MemdecayPolicy.of,
    }
)
"""Policies by name.

``full`` keeps everything, ``window`` the newest tokens, ``streaming`` sinks and the newest. From
the literature: ``h2o``, ``tova`` and ``snapkv`` go by attention, ``keydiff`` and ``knorm`` by the
keys, ``selective`` by a threshold on attention. ``learned`` goes by what a foresight head expects,
``region`` follows the region formula, ``memdecay`` adds attention and foresight to it.
"""


def make_policy(config: CacheConfig) -> EvictionPolicy:
    """Build the policy that a configuration names.

    Raises:
        ConfigError: No policy has this name, or it needs a foresight head that is not there.
    """
    try:
        return POLICIES[config.policy](config)
    except KeyError:
        raise ConfigError(
            f"unknown policy {config.policy!r}; expected one of {', '.join(POLICIES)}"
        ) from None
