"""A session between and during its turns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from torch import Tensor

from memdecay.classifier.regions import REGION_LABELS
from memdecay.runtime.cache import DecayCache
from memdecay.runtime.layer import EvictingLayer
from memdecay.runtime.precision.layout import FULL_BITS
from memdecay.runtime.transcript import Transcript
from memdecay.serving.engine.events import Tier
from memdecay.serving.engine.model.memory import SessionMemory
from memdecay.serving.engine.sessions.disk import StoredFile
from memdecay.serving.engine.views import SessionSnapshot

_MAX_HISTORY = 512


def _no_tokens() -> dict[str, int]:
    return dict.fromkeys(REGION_LABELS, 0)


@dataclass(frozen=True, slots=True)
class MemoryFacts:
    """What a memory holds, in numbers that outlive it.

    Attributes:
        tokens_seen: Tokens read.
        tokens_kept: Tokens kept.
        kept_per_region: Kept tokens by region name.
        evicted_per_region: Evicted tokens by region name.
        kv_bytes: Bytes of the buffers.
        occupied_bytes: Bytes of the kept tokens, each at its precision.
        kept_per_precision: Kept tokens by the bits that a number of theirs has, the most first:
            ``full``, then ``4`` and ``2`` for example.
    """

    tokens_seen: int = 0
    tokens_kept: int = 0
    kept_per_region: Mapping[str, int] = field(default_factory=_no_tokens)
    evicted_per_region: Mapping[str, int] = field(default_factory=_no_tokens)
    kv_bytes: int = 0
    occupied_bytes: int = 0
    kept_per_precision: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, memory: SessionMemory) -> MemoryFacts:
        """Return the facts of a memory as it is now."""
        cache = memory.cache
        return cls(
            tokens_seen=cache.tokens_seen,
            tokens_kept=cache.tokens_kept,
            kept_per_region={region.label: n for region, n in cache.kept_per_region().items()},
            evicted_per_region={
                region.label: n for region, n in cache.evicted_per_region().items()
            },
            kv_bytes=cache.allocated_bytes,
            occupied_bytes=cache.allocated_bytes - _unused_bytes(cache),
            kept_per_precision=_kept_per_precision(cache),
        )


def _unused_bytes(cache: DecayCache) -> int:
    return sum(layer.unused_bytes for layer in cache.layers if isinstance(layer, EvictingLayer))


def _kept_per_precision(cache: DecayCache) -> dict[str, int]:
    layout = cache.layout
    counts = reversed(list(zip(layout.bits, layout.counts, strict=True)))
    return {"full" if bits == FULL_BITS else str(bits): count for bits, count in counts}


@dataclass(slots=True, eq=False)
class ServedSession:
    """One conversation of one tenant.

    Exactly one of ``memory``, ``saved`` and ``stored`` is set, or none where the memory was given
    up; the transcript stays in any case.

    Attributes:
        tenant: Whose it is.
        session_id: The client's name, or the engine's where it has none.
        is_named: Whether the client gave the name.
        salt: What the requests of this session have to be salted with.
        created_at: Time of its first request.
        last_used_at: Time of its last use.
        transcript: The tokens so far; the newest may not have been run yet.
        digest: Names the messages of the last prompt; None for a raw prompt and before the first.
        memory: What is on the device.
        saved: A copy in CPU memory.
        stored: A file on disk.
        reserved_bytes: Bytes of the device that are promised to it.
        saved_bytes: Bytes that it takes in CPU memory or on disk.
        num_turns: Requests answered.
        is_running: Whether a request is using it.
        facts: What the memory held when it was last looked at.
        history: Snapshots, oldest first.
        lost_because: Why the memory was given up, for the client; empty if it was not.
    """

    tenant: str
    session_id: str
    is_named: bool
    salt: str
    created_at: float
    last_used_at: float
    transcript: Transcript = field(default_factory=Transcript.empty)
    digest: bytes | None = None
    memory: SessionMemory | None = None
    saved: dict[str, Tensor] | None = None
    stored: StoredFile | None = None
    reserved_bytes: int = 0
    saved_bytes: int = 0
    num_turns: int = 0
    is_running: bool = False
    facts: MemoryFacts = field(default_factory=MemoryFacts)
    history: list[SessionSnapshot] = field(default_factory=list)
    lost_because: str = ""

    @property
    def tier(self) -> Tier:
        """Where its cache lies."""
        if self.memory is not None:
            return "device"
        if self.saved is not None:
            return "cpu"
        return "none" if self.stored is None else "disk"

    def worth(self, now: float, half_life_s: float) -> float:
        """Return the tokens that would be read again, halved for every half-life of idleness."""
        idle_s = max(0.0, now - self.last_used_at)
        return (1 + self.facts.tokens_seen) * float(0.5 ** (idle_s / half_life_s))

    def look(self) -> MemoryFacts:
        """Return the facts, taken anew if the memory is on the device."""
        if self.memory is not None:
            self.facts = MemoryFacts.of(self.memory)
        return self.facts

    def take_snapshot(self) -> None:
        """Add the memory's present state to the history, which gets coarser as it grows."""
        facts = self.look()
        self.history.append(
            SessionSnapshot(
                facts.tokens_seen, facts.tokens_kept, facts.kept_per_region, facts.kv_bytes
            )
        )
        if len(self.history) > _MAX_HISTORY:
            del self.history[1:-1:2]
