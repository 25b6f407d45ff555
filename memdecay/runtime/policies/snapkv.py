"""Rank by the pooled attention of a window of queries: ``snapkv``."""

from __future__ import annotations

from dataclasses import dataclass, field

from torch import Tensor

from memdecay.runtime.metadata import Slots
from memdecay.runtime.policies.attention import pool
from memdecay.runtime.policies.base import Blend, Observation

WINDOW_QUERIES = 32
POOL_WIDTH = 5


@dataclass(frozen=True, slots=True)
class SnapKvPolicy:
    """Rank by the mean attention of the newest queries, averaged over neighbouring tokens.

    The window's own tokens always stay. The published method compresses a prompt once and selects
    for each head; here it runs on through the session, and attention is averaged over layers and
    heads since a row keeps one set of tokens.

    Source: Li et al. 2024, "SnapKV: LLM Knows What You are Looking for Before Generation",
    section 4.

    Attributes:
        window_queries: Newest queries whose attention counts, 1 or more.
        pool_width: Neighbouring slots that are averaged, odd.
    """

    window_queries: int = WINDOW_QUERIES
    pool_width: int = POOL_WIDTH
    evicts: bool = True
    protects_sinks: bool = True
    caps_regions: bool = False
    uses_attention: bool = True
    uses_keys: bool = False
    uses_foresight: bool = False
    fades: bool = False
    scores_logarithms: bool = False
    observation: Observation = field(init=False)

    def __post_init__(self) -> None:
        """Check the ranges.

        Raises:
            ValueError: The window is empty or the pooling width is even.
        """
        if self.window_queries < 1:
            raise ValueError(f"window_queries must be 1 or more, got {self.window_queries}")
        if self.pool_width < 1 or self.pool_width % 2 == 0:
            raise ValueError(f"pool_width must be odd and positive, got {self.pool_width}")
        observation = Observation.exhaustive(Blend.WINDOW, self.window_queries)
        object.__setattr__(self, "observation", observation)

    def score(self, slots: Slots, keys: tuple[Tensor, ...]) -> Tensor:  # noqa: ARG002
        """Return the pooled attention, and 1 (more than any can have) for the window's tokens."""
        is_window = slots.ages < self.window_queries
        attention = slots.attention.nan_to_num(nan=0.0).masked_fill(is_window, 0.0)
        pooled = pool(attention, self.pool_width, counts_edges=True)
        return pooled.masked_fill(is_window, 1.0)
