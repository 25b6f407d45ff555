"""What the cache asks of an eviction policy, and what a policy asks of the attention's observer."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from torch import Tensor

from memdecay.runtime.metadata import Slots


class Blend(Enum):
    """How an observation joins what was observed before.

    ``FADE``: exponential average with the half-life of `FeedbackConfig`. ``LATEST``: it replaces
    the earlier ones. ``WINDOW``: it replaces them in proportion to its share of the window's
    queries. ``SUM``: attention adds up over all queries and never fades.
    """

    FADE = "fade"
    LATEST = "latest"
    WINDOW = "window"
    SUM = "sum"


@dataclass(frozen=True, slots=True)
class Observation:
    """What of the attention has to be watched.

    Attributes:
        blend: How observations are put together in `Slots.attention`.
        window_queries: Newest queries of a forward that are watched, 0 for all of them; None
            takes `FeedbackConfig.window_queries`.
        watches_all_layers: Whether every full-attention layer is watched, not the few that
            `FeedbackConfig.layers` names.
        watches_all_steps: Whether every decoded token is watched, not one every few tokens.
    """

    blend: Blend = Blend.FADE
    window_queries: int | None = None
    watches_all_layers: bool = False
    watches_all_steps: bool = False

    @classmethod
    def exhaustive(cls, blend: Blend, window_queries: int) -> Observation:
        """Return one of all layers and all steps, as methods from the literature assume it."""
        return cls(blend, window_queries, watches_all_layers=True, watches_all_steps=True)


AS_CONFIGURED = Observation()
"""What `FeedbackConfig` says."""


class EvictionPolicy(Protocol):
    """How tokens are ranked, and which guards the cache puts around the ranking."""

    @property
    def evicts(self) -> bool:
        """Whether tokens are ever evicted; if not, the buffers grow."""

    @property
    def protects_sinks(self) -> bool:
        """Whether the first tokens of a row always stay."""

    @property
    def caps_regions(self) -> bool:
        """Whether a region's share of the kept tokens is capped."""

    @property
    def uses_attention(self) -> bool:
        """Whether the scores read `Slots.attention`."""

    @property
    def uses_keys(self) -> bool:
        """Whether the scores read the keys; the others may be given none."""

    @property
    def uses_foresight(self) -> bool:
        """Whether the scores read `Slots.foresight`."""

    @property
    def fades(self) -> bool:
        """Whether tokens lose precision before they are forgotten; if not, they go at once."""

    @property
    def scores_logarithms(self) -> bool:
        """Whether a score is the logarithm of a token's expected use.

        The distance between two then says how far one token lies below another; other scores
        only say which of two goes first.
        """

    @property
    def observation(self) -> Observation:
        """What has to be watched for the scores; counts only where attention is used."""

    def score(self, slots: Slots, keys: tuple[Tensor, ...]) -> Tensor:
        """Rank the kept tokens; the cache itself sees to padding and protected tokens.

        Args:
            slots: The kept tokens.
            keys: Keys of every full-attention layer, each of shape
                ``(batch, num_key_value_heads, kept, head_dim)``, read-only.

        Returns:
            Scores, shape ``(batch, kept)``, float, without NaN; the highest stay.
        """
