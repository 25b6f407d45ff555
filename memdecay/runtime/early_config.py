"""The settings of the early mark: which tokens go before the budget is used up."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class EarlyConfig:
    """Which tokens fade or go before the budget is used up, and how many at a time.

    The threshold is the score of the token at the margin if the present ones stood at the high
    watermark: the worst that an eviction would keep, or what a token must be worth to keep its
    bits where tokens fade. Policies whose scores only rank know no distance from it and are left
    alone, see `EvictionPolicy.scores_logarithms`.

    Attributes:
        watermark: Share of the budget above which tokens far below the threshold go; 1 for none.
        margin: Share of the threshold's score below which a token is far below it.
        every_tokens: Tokens between two looks.
        most_tokens: Tokens of a row that go or fade at one look.
    """

    watermark: float = 0.6
    margin: float = 1 / 16
    every_tokens: int = 32
    most_tokens: int = 32

    def __post_init__(self) -> None:
        """Check the ranges.

        Raises:
            ValueError: A value is out of its range.
        """
        if not 0 < self.watermark <= 1:
            raise ValueError(
                f"the early watermark must be above 0 and at most 1, got {self.watermark}"
            )
        if not 0 < self.margin <= 1:
            raise ValueError(f"the early margin must be above 0 and at most 1, got {self.margin}")
        for name in ("every_tokens", "most_tokens"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be 1 or more, got {getattr(self, name)}")
