"""What was measured: one row a round, and all of one server."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class RoundRow:
    """One round of one agent.

    Attributes:
        agent: The agent, from 0.
        round: Its round, from 1.
        end_s: Seconds from the beginning of the run to the round's end.
        first_token_s: Seconds to the first text of the answer.
        total_s: Seconds to the answer's end.
        prompt_tokens: Tokens of the conversation; None where the server does not tell.
        cached_tokens: How many of them were not read again; None where it does not tell.
        answer_tokens: Tokens of the answer; None where it does not tell.
        error: Why the round failed; empty if it did not.
    """

    agent: int
    round: int
    end_s: float
    first_token_s: float
    total_s: float
    prompt_tokens: int | None
    cached_tokens: int | None
    answer_tokens: int | None
    error: str = ""


@dataclass(frozen=True, slots=True)
class Probe:
    """A round sent once more with nothing cached.

    Attributes:
        round: The round.
        first_token_s: Seconds to the first text of the answer.
        prompt_tokens: Tokens of the conversation.
    """

    round: int
    first_token_s: float
    prompt_tokens: int | None


@dataclass(frozen=True, slots=True)
class ServerRun:
    """One contestant's run.

    Attributes:
        name: The contestant.
        identity: Names all that the figures depend on.
        rows: The rounds in the order of their ends.
        probes: The rounds that were sent again.
        peak_rss_bytes: Most memory of the server's process; None where it is not known.
        peak_kv_bytes: Most bytes of keys and values, by the server's own account, looked at every
            second; None where it keeps none.
        kv_limit_bytes: The bytes that they may take; None for no limit.
        was_cut: Whether the time limit ended it.
    """

    name: str
    identity: str
    rows: tuple[RoundRow, ...]
    probes: tuple[Probe, ...] = ()
    peak_rss_bytes: int | None = None
    peak_kv_bytes: int | None = None
    kv_limit_bytes: int | None = None
    was_cut: bool = False

    def to_dict(self) -> dict[str, Any]:
        """Return the run as JSON takes it."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> ServerRun:
        """Return what `to_dict` gave.

        Raises:
            KeyError: A part is missing.
            TypeError: A part is unknown.
        """
        rows = tuple(RoundRow(**row) for row in data["rows"])
        probes = tuple(Probe(**probe) for probe in data["probes"])
        return cls(**{**data, "rows": rows, "probes": probes})
