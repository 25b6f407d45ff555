"""The settings of the serving benchmark."""

from __future__ import annotations

from dataclasses import dataclass

_POSITIVE = ("num_agents", "num_rounds", "dump_round", "dump_tokens", "max_tokens")


@dataclass(frozen=True, slots=True)
class LoadConfig:
    """What the agents do; every server gets the same.

    Attributes:
        num_agents: Agents that talk to the server at the same time.
        num_rounds: Requests of each agent, one after the other.
        dump_round: The round that brings a long tool result, from 1.
        dump_tokens: Its tokens.
        round_tokens: Most tokens of any other round's new message; None takes what fits the
            model's context, at most 256.
        max_tokens: Most tokens of an answer.
        probe_rounds: Rounds that are sent once more at the end, without anything cached.
        timeout_s: Seconds without a sign of life after which a round has failed.
        time_limit_s: Seconds after which no agent begins another round; None for no limit.
    """

    num_agents: int = 4
    num_rounds: int = 100
    dump_round: int = 5
    dump_tokens: int = 2048
    round_tokens: int | None = None
    max_tokens: int = 16
    probe_rounds: tuple[int, ...] = (20,)
    timeout_s: float = 600.0
    time_limit_s: float | None = None

    def __post_init__(self) -> None:
        """Check the ranges.

        Raises:
            ValueError: A value is out of its range.
        """
        for name in _POSITIVE:
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be 1 or more, got {getattr(self, name)}")
        for name in ("round_tokens", "timeout_s", "time_limit_s"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise ValueError(f"{name} must be above 0, got {value}")

    @property
    def probed_rounds(self) -> tuple[int, ...]:
        """The rounds to probe that there are, and the last."""
        rounds = {number for number in self.probe_rounds if 1 <= number <= self.num_rounds}
        return tuple(sorted(rounds | {self.num_rounds}))
