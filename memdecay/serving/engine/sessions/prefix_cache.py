"""Beginnings of conversations that many sessions share, read once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from memdecay.serving.engine.model.state import state_bytes
from memdecay.serving.engine.sessions.digests import BLOCK_TOKENS, block_digests
from memdecay.serving.engine.views import TierUse


@dataclass(slots=True, eq=False)
class Prefix:
    """The memory of a beginning, as it was when nothing else had been read.

    It is never changed: a session that begins with it gets a copy.

    Attributes:
        token_ids: Its tokens, ``(n,)``, int64; n is a multiple of the block size.
        state: The memory, see `save_memory`.
        weight: Mean importance of its tokens; what weighs more stays longer.
        is_kept: Whether it stays in any case, as what the operator asked for does.
        num_hits: Sessions that began with it.
        last_used: When it was last used, in lookups of the cache.
    """

    token_ids: NDArray[np.int64]
    state: Mapping[str, Tensor]
    weight: float
    is_kept: bool = False
    num_hits: int = 0
    last_used: int = 0
    size_bytes: int = field(init=False)

    def __post_init__(self) -> None:
        """Count the bytes."""
        self.size_bytes = state_bytes(self.state)


class PrefixCache:
    """Prefixes by the chained digests of their blocks of tokens, under one root an owner.

    The digests find a prefix, its token ids prove it. When room is needed, prefixes that were
    never used again go first (the probation of a segmented LRU), then those that weigh least for
    the time that they were not used.

    Args:
        limit_bytes: Bytes of all prefixes together.
    """

    def __init__(self, limit_bytes: int) -> None:
        self._limit_bytes = limit_bytes
        self._prefixes: dict[bytes, Prefix] = {}
        self._num_lookups = 0
        self.num_queried_tokens = 0
        self.num_hit_tokens = 0

    @property
    def is_on(self) -> bool:
        """Whether anything can be kept."""
        return self._limit_bytes > 0

    def use(self) -> TierUse:
        """Return how many prefixes there are and what they take."""
        return TierUse(len(self._prefixes), self._used_bytes(), self._limit_bytes)

    def boundary(self, num_tokens: int) -> int:
        """Return the end of the last whole block within so many tokens."""
        return num_tokens // BLOCK_TOKENS * BLOCK_TOKENS

    def find(
        self, roots: tuple[bytes, ...], token_ids: NDArray[np.int64], max_tokens: int
    ) -> Prefix | None:
        """Return the longest prefix of these tokens that one of the owners has.

        Args:
            roots: The owners' digests, see `root_digest`.
            token_ids: ``(n,)``, int64.
            max_tokens: The longest prefix that is of use.
        """
        self._num_lookups += 1
        self.num_queried_tokens += len(token_ids)
        chains = [block_digests(root, token_ids[:max_tokens]) for root in roots]
        for block in range(len(chains[0]) - 1, -1, -1):
            for chain in chains:
                prefix = self._prefixes.get(chain[block])
                if prefix is not None and _begins_with(token_ids, prefix.token_ids):
                    prefix.num_hits += 1
                    prefix.last_used = self._num_lookups
                    self.num_hit_tokens += len(prefix.token_ids)
                    return prefix
        return None

    def holds(self, root: bytes, token_ids: NDArray[np.int64]) -> bool:
        """Tell whether an owner has exactly this prefix."""
        digests = block_digests(root, token_ids)
        return bool(digests) and digests[-1] in self._prefixes

    def add(self, root: bytes, prefix: Prefix) -> bool:
        """Keep a prefix for an owner; return whether there was room for it."""
        if not self._make_room(prefix.size_bytes):
            return False
        prefix.last_used = self._num_lookups
        self._prefixes[block_digests(root, prefix.token_ids)[-1]] = prefix
        return True

    def _used_bytes(self) -> int:
        return sum(prefix.size_bytes for prefix in self._prefixes.values())

    def _make_room(self, num_bytes: int) -> bool:
        if num_bytes > self._limit_bytes:
            return False
        going = sorted(
            (digest for digest, prefix in self._prefixes.items() if not prefix.is_kept),
            key=self._rank,
        )
        used = self._used_bytes()
        for digest in going:
            if used + num_bytes <= self._limit_bytes:
                break
            used -= self._prefixes.pop(digest).size_bytes
        return used + num_bytes <= self._limit_bytes

    def _rank(self, digest: bytes) -> tuple[bool, float]:
        prefix = self._prefixes[digest]
        return prefix.num_hits > 0, prefix.weight / (1 + self._num_lookups - prefix.last_used)


def _begins_with(token_ids: NDArray[np.int64], prefix: NDArray[np.int64]) -> bool:
    return np.array_equal(token_ids[: len(prefix)], prefix)
