"""What the engine tells about a running request, event by event."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from memdecay.serving.engine.request import ErrorKind

FinishReason = Literal["stop", "length", "cancelled"]
Tier = Literal["device", "cpu", "disk", "none"]
Origin = Literal["new", "session", "prefix"]


@dataclass(frozen=True, slots=True)
class Divergence:
    """Where a conversation stopped being the one that the session had read.

    Attributes:
        token_index: The first token that differs.
        is_read_again: Whether tokens before it were evicted or lost, so that all had to be read
            from the beginning.
        reason: One sentence for the client.
    """

    token_index: int
    is_read_again: bool
    reason: str


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one request.

    Attributes:
        num_prompt_tokens: Tokens of the conversation before the answer.
        num_cached_tokens: How many of them had been read before and were not run again.
        num_completion_tokens: Tokens of the answer, the one that ended it included.
    """

    num_prompt_tokens: int
    num_cached_tokens: int
    num_completion_tokens: int


@dataclass(frozen=True, slots=True)
class MemoryReport:
    """What a session remembers, and what this request made it forget.

    Attributes:
        session_id: The client's name of the session, or the engine's where it has none.
        tokens_seen: Tokens that the model has read in this session.
        tokens_kept: How many of them the cache still holds.
        kept_per_region: The kept ones by region name.
        evicted_per_region: The evicted ones by the region that they had then.
        newly_evicted_per_region: Those of them that went during this request.
        kv_bytes: Bytes of the session's buffers.
        notes: Sentences for the client on what was lost, restored or read again.
        kept_per_precision: The kept ones by the bits that they have faded to; ``full`` for those
            that have lost nothing.
    """

    session_id: str
    tokens_seen: int
    tokens_kept: int
    kept_per_region: Mapping[str, int]
    evicted_per_region: Mapping[str, int]
    newly_evicted_per_region: Mapping[str, int]
    kv_bytes: int
    notes: tuple[str, ...] = ()
    kept_per_precision: Mapping[str, int] = field(default_factory=dict)

    @property
    def tokens_faded(self) -> int:
        """Kept tokens that have lost precision."""
        return sum(count for bits, count in self.kept_per_precision.items() if bits != "full")


@dataclass(frozen=True, slots=True)
class Timings:
    """Seconds that a request spent, measured by the engine.

    Attributes:
        queue_s: From `ServingEngine.submit` until the first work on it.
        first_token_s: From submit until the first token of the answer; None if there was none.
        total_s: From submit until the end.
    """

    queue_s: float
    first_token_s: float | None
    total_s: float


@dataclass(frozen=True, slots=True)
class Started:
    """The first event: the request has its session, and reading begins.

    Attributes:
        session_id: The client's name of the session, or the engine's where it has none.
        num_prompt_tokens: Tokens of the conversation before the answer.
        num_cached_tokens: How many of them need not be run again.
        origin: Where those came from: an own session, the prefix cache, or nowhere.
        restored_from: The tier in which the session lay until now.
        divergence: Set where the session had read something else.
        notes: Sentences for the client on what was lost, restored or read again.
    """

    session_id: str
    num_prompt_tokens: int
    num_cached_tokens: int
    origin: Origin
    restored_from: Tier
    divergence: Divergence | None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Delta:
    """New text of the answer.

    Attributes:
        text: The text; never empty. Text that may turn out to begin a stop text waits.
        token_ids: Tokens chosen since the last event.
    """

    text: str
    token_ids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Finished:
    """The last event of a request that ran.

    Attributes:
        finish_reason: ``stop`` for a stop token or text, ``length`` for the limit, ``cancelled``.
        text: The whole answer.
        token_ids: Its tokens, without a stop token.
        usage: Tokens in and out.
        memory: What the session remembers and what went.
        timings: Seconds spent.
        divergence: As in `Started`.
    """

    finish_reason: FinishReason
    text: str
    token_ids: tuple[int, ...]
    usage: Usage
    memory: MemoryReport
    timings: Timings
    divergence: Divergence | None = None


@dataclass(frozen=True, slots=True)
class Failed:
    """The last event of a request that could not run to its end.

    Attributes:
        kind: Why.
        message: One sentence for the client.
    """

    kind: ErrorKind
    message: str


Event = Started | Delta | Finished | Failed
Listener = Callable[[Event], None]
