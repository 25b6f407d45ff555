"""Sessions and the engine as they may be looked at from outside."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from memdecay.serving.engine.events import Tier


@dataclass(frozen=True, slots=True)
class ForgottenSpan:
    """Neighbouring tokens of one message that a session has evicted.

    Attributes:
        start: Position of the first token.
        stop: Position behind the last.
        message_index: Index of the message; None for text of the template before the first.
        role: The message's role; None if unknown.
        text: The tokens' text, cut in the middle where it is long.
    """

    start: int
    stop: int
    message_index: int | None
    role: str | None
    text: str


@dataclass(frozen=True, slots=True)
class SessionSnapshot:
    """A session's memory at one moment of its life.

    Attributes:
        tokens_seen: Tokens read until then.
        tokens_kept: Tokens kept then.
        kept_per_region: Tokens kept then, by region name.
        kv_bytes: Bytes of its buffers.
    """

    tokens_seen: int
    tokens_kept: int
    kept_per_region: Mapping[str, int]
    kv_bytes: int


@dataclass(frozen=True, slots=True)
class SessionView:
    """A session as its tenant may see it.

    Attributes:
        session_id: The client's name, or the engine's where it has none.
        is_named: Whether the client gave the name.
        tier: Where its cache lies; ``none`` if it was given up and the next turn reads all again.
        is_running: Whether a request is using it now.
        num_turns: Requests that it has answered.
        tokens_seen: Tokens read.
        tokens_kept: Tokens kept.
        kept_per_region: Kept tokens by region name.
        evicted_per_region: Evicted tokens by region name.
        kv_bytes: Bytes of its buffers, in whichever tier.
        idle_s: Seconds since its last use.
        expires_in_s: Seconds until it is deleted if nobody uses it; None if never.
        history: Snapshots, oldest first.
        forgotten: What was evicted, oldest first, if it was asked for.
        kept_per_precision: Kept tokens by the bits that they have faded to; ``full`` for those that
            have lost nothing.
    """

    session_id: str
    is_named: bool
    tier: Tier
    is_running: bool
    num_turns: int
    tokens_seen: int
    tokens_kept: int
    kept_per_region: Mapping[str, int]
    evicted_per_region: Mapping[str, int]
    kv_bytes: int
    idle_s: float
    expires_in_s: float | None
    history: tuple[SessionSnapshot, ...] = ()
    forgotten: tuple[ForgottenSpan, ...] = ()
    kept_per_precision: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TierUse:
    """How full one tier is.

    Attributes:
        num_sessions: Sessions in it.
        used_bytes: Bytes that they take.
        limit_bytes: Bytes that they may take; None for no limit.
    """

    num_sessions: int
    used_bytes: int
    limit_bytes: int | None


@dataclass(frozen=True, slots=True)
class EngineStats:
    """The engine now, and counts since its start.

    Attributes:
        num_running: Requests being read or answered.
        num_waiting: Requests in the queue.
        tiers: ``device``, ``cpu`` and ``disk``; the device has a limit in any case.
        reserved_bytes: Bytes promised to the sessions on the device.
        occupied_bytes: Bytes of tokens that those sessions keep.
        region_tokens: Tokens that those sessions keep, by region name.
        prefix_cache: Sessions' beginnings that are shared within a tenant.
        evicted_tokens_total: Evicted tokens by region name.
        prompt_tokens_total: Tokens of prompts.
        cached_tokens_total: How many of them were not run again, thanks to the own session or a
            shared prefix.
        prefix_queries_total: Tokens looked up in the prefix cache.
        prefix_hits_total: How many of them were found there.
        generated_tokens_total: Tokens of answers.
        finished_total: Requests by finish reason.
        failed_total: Requests refused or failed, by `ErrorKind`.
        offloaded_total: Sessions moved to another tier, by tier.
        restored_total: Sessions brought back, by the tier that they came from.
        recomputed_total: Sessions of which all had to be read again.
    """

    num_running: int
    num_waiting: int
    tiers: Mapping[str, TierUse]
    reserved_bytes: int
    occupied_bytes: int
    region_tokens: Mapping[str, int]
    prefix_cache: TierUse
    evicted_tokens_total: Mapping[str, int]
    prompt_tokens_total: int
    cached_tokens_total: int
    prefix_queries_total: int
    prefix_hits_total: int
    generated_tokens_total: int
    finished_total: Mapping[str, int]
    failed_total: Mapping[str, int]
    offloaded_total: Mapping[str, int]
    restored_total: Mapping[str, int]
    recomputed_total: int

    @property
    def watermark_level(self) -> float:
        """The share of the device's bytes that is promised to sessions."""
        limit = self.tiers["device"].limit_bytes
        return self.reserved_bytes / limit if limit else 0.0
