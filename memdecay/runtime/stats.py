"""What a session has seen, kept and forgotten, in numbers."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from memdecay.classifier.regions import Region
from memdecay.runtime.cache import DecayCache

MOST_SNAPSHOTS = 4096
"""Snapshots that are kept; where one more comes, every other of them goes."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The cache at one moment.

    Attributes:
        tokens_seen: Tokens seen so far.
        tokens_kept: Tokens kept.
        kept_per_region: Tokens kept, by region name.
        kv_bytes: Bytes of the cache's buffers.
    """

    tokens_seen: int
    tokens_kept: int
    kept_per_region: Mapping[str, int]
    kv_bytes: int


@dataclass(frozen=True, slots=True)
class SessionStats:
    """The cache now and how it came there.

    Attributes:
        tokens_seen: Tokens that the model has seen since the session began or was reset.
        tokens_kept: Tokens that the cache still holds; the others were evicted.
        kept_per_region: Tokens kept, by region name.
        evicted_per_region: Tokens evicted, by the region they had when they went.
        late_tagged: Tokens kept that later tokens' attention made key decisions.
        kv_bytes: Bytes of the cache's buffers.
        peak_kv_bytes: Most bytes of buffers at one time.
        full_cache_bytes: Bytes that all tokens seen would take.
        decode_ms_per_token: Mean time of one decode step with all that goes with it (tagging,
            watching attention, evicting, sampling); None before the first.
        prefill_ms_per_token: The same for tokens read in chunks.
        history: Snapshots, oldest first: after each chunk, every few decoded tokens and at the
            end of each reply; fewer of the older ones where they would be too many.
    """

    tokens_seen: int
    tokens_kept: int
    kept_per_region: Mapping[str, int]
    evicted_per_region: Mapping[str, int]
    late_tagged: int
    kv_bytes: int
    peak_kv_bytes: int
    full_cache_bytes: int
    decode_ms_per_token: float | None
    prefill_ms_per_token: float | None
    history: tuple[Snapshot, ...]

    @property
    def saved_share(self) -> float:
        """Share of a full cache's bytes that is saved; 0 where the buffers take no less."""
        if not self.full_cache_bytes:
            return 0.0
        return max(0.0, 1 - self.kv_bytes / self.full_cache_bytes)


@dataclass(slots=True)
class Stopwatch:
    """Time spent on some tokens.

    Attributes:
        seconds: The time so far.
        num_tokens: The tokens so far.
    """

    seconds: float = 0.0
    num_tokens: int = 0

    @contextmanager
    def time(self, num_tokens: int) -> Iterator[None]:
        """Add the block's time; a block that fails does not count."""
        start = time.perf_counter()
        yield
        self.seconds += time.perf_counter() - start
        self.num_tokens += num_tokens

    @property
    def ms_per_token(self) -> float | None:
        """Mean time of a token; None before the first."""
        return 1000 * self.seconds / self.num_tokens if self.num_tokens else None


class Meter:
    """Gathers a session's numbers."""

    def __init__(self, cache: DecayCache) -> None:
        self._cache = cache
        self.prefill = Stopwatch()
        self.decode = Stopwatch()
        self._history: list[Snapshot] = []

    def take_snapshot(self) -> None:
        """Add the cache's present state to the history."""
        if len(self._history) == MOST_SNAPSHOTS:
            # A session may go on for weeks: every other one tells the same story.
            self._history = self._history[1::2]
        cache = self._cache
        self._history.append(
            Snapshot(
                tokens_seen=cache.tokens_seen,
                tokens_kept=cache.tokens_kept,
                kept_per_region=_by_name(cache.kept_per_region()),
                kv_bytes=cache.allocated_bytes,
            )
        )

    def stats(self) -> SessionStats:
        """Return the numbers so far."""
        cache = self._cache
        return SessionStats(
            tokens_seen=cache.tokens_seen,
            tokens_kept=cache.tokens_kept,
            kept_per_region=_by_name(cache.kept_per_region()),
            evicted_per_region=_by_name(cache.evicted_per_region()),
            late_tagged=int(cache.slots.is_promoted.sum()),
            kv_bytes=cache.allocated_bytes,
            peak_kv_bytes=cache.peak_bytes,
            full_cache_bytes=cache.bytes_per_token * cache.tokens_seen,
            decode_ms_per_token=self.decode.ms_per_token,
            prefill_ms_per_token=self.prefill.ms_per_token,
            history=tuple(self._history),
        )


def _by_name(counts: Mapping[Region, int]) -> dict[str, int]:
    return {region.label: count for region, count in counts.items()}
