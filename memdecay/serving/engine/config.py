"""The settings of the serving engine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from memdecay.runtime.config import CacheConfig

_POSITIVE = (
    "chunk_tokens",
    "prefill_tokens_per_step",
    "max_running",
    "max_waiting",
    "max_sessions",
    "max_known_sessions",
    "default_max_tokens",
)
_NOT_NEGATIVE = ("cpu_memory_bytes", "disk_bytes", "prefix_cache_bytes")


@dataclass(frozen=True, slots=True)
class SharedPrompt:
    """A beginning of conversations that is read once, before the first request.

    Attributes:
        messages: OpenAI chat messages.
        tenant: Whose conversations begin so; None makes it a public prefix of all tenants.
        cache_salt: The salt of those conversations; without meaning for a public prefix.
        tools: OpenAI tool definitions that those conversations have.
    """

    messages: tuple[Mapping[str, Any], ...]
    tenant: str | None = None
    cache_salt: str = ""
    tools: tuple[Mapping[str, Any], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineConfig:
    """How many sessions the engine holds, where, and how it shares its time among them.

    Attributes:
        cache: Budget and policy of each session.
        chunk_tokens: Most tokens of one forward while reading.
        prefill_tokens_per_step: Tokens read, by all requests together, between two steps of
            those that are being answered; at least one chunk is always read.
        max_running: Requests that are read or answered at the same time.
        max_waiting: Requests that wait; more are refused.
        max_sessions: Sessions on the device, running and idle.
        kv_memory_bytes: Bytes of all their caches together; None for no limit.
        cpu_memory_bytes: Bytes of idle sessions in CPU memory; 0 leaves this tier out, which is
            right where the model itself runs on the CPU.
        disk_folder: Where idle sessions are kept on disk; None leaves this tier out.
        disk_bytes: Bytes of idle sessions on disk.
        max_known_sessions: Sessions in all tiers, with those whose memory was given up.
        session_ttl_s: Seconds after which an unused session is deleted; None keeps it.
        value_half_life_s: Seconds of idleness that halve what a session is worth when room is
            made; its worth is the number of tokens that would have to be read again.
        default_max_tokens: Longest answer where the request does not say.
        prefix_cache_bytes: Bytes of the prefix cache; 0 leaves it out.
        shared_prompts: Beginnings that are read into the prefix cache at the start.
    """

    cache: CacheConfig
    chunk_tokens: int = 256
    prefill_tokens_per_step: int = 256
    max_running: int = 16
    max_waiting: int = 64
    max_sessions: int = 64
    kv_memory_bytes: int | None = None
    cpu_memory_bytes: int = 0
    disk_folder: Path | None = None
    disk_bytes: int = 16 << 30
    max_known_sessions: int = 1024
    session_ttl_s: float | None = 24 * 3600.0
    value_half_life_s: float = 600.0
    default_max_tokens: int = 1024
    prefix_cache_bytes: int = 256 << 20
    shared_prompts: tuple[SharedPrompt, ...] = ()

    def __post_init__(self) -> None:
        """Check the ranges.

        Raises:
            ValueError: A value is out of its range.
        """
        for name in _POSITIVE:
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be 1 or more, got {getattr(self, name)}")
        for name in _NOT_NEGATIVE:
            if getattr(self, name) < 0:
                raise ValueError(f"{name} must be 0 or more, got {getattr(self, name)}")
        for name in ("kv_memory_bytes", "session_ttl_s", "value_half_life_s"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise ValueError(f"{name} must be above 0, got {value}")
