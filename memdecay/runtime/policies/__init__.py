"""Eviction policies: each gives every kept token a score, and the lowest go first."""

from memdecay.runtime.policies.base import Blend, EvictionPolicy, Observation
from memdecay.runtime.policies.memdecay import MemdecayPolicy
from memdecay.runtime.policies.region import RegionPolicy
from memdecay.runtime.policies.registry import POLICIES, make_policy

__all__ = [
    "POLICIES",
    "Blend",
    "EvictionPolicy",
    "MemdecayPolicy",
    "Observation",
    "RegionPolicy",
    "make_policy",
]
