"""Counts since the engine's start."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(slots=True)
class Counters:
    """What has happened so far; see `EngineStats` for the meaning of each."""

    prompt_tokens: int = 0
    cached_tokens: int = 0
    generated_tokens: int = 0
    recomputed: int = 0
    finished: Counter[str] = field(default_factory=Counter)
    failed: Counter[str] = field(default_factory=Counter)
    evicted: Counter[str] = field(default_factory=Counter)


def difference(now: Mapping[str, int], before: Mapping[str, int]) -> dict[str, int]:
    """Return by how much each count has grown; a count that began anew counts in full."""
    return {
        name: count - before.get(name, 0) if count >= before.get(name, 0) else count
        for name, count in now.items()
    }
