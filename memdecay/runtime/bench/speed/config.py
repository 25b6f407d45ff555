"""The settings of the speed benchmark."""

from __future__ import annotations

from dataclasses import dataclass

from memdecay.runtime.config import STORAGE_DTYPES


@dataclass(frozen=True, slots=True)
class SpeedConfig:
    """What is timed; every cache gets the same tokens in the same chunks.

    Attributes:
        seen: Tokens that each cache has seen when its decode steps are timed, ascending.
        budget: Tokens at full precision that a cache may hold (int), or the share of the tokens
            seen that they are (float, at most 1).
        num_steps: Decode steps that are timed, and as many again whose parts are timed.
        block_steps: Decode steps of one cache before it is the next one's turn.
        chunk_tokens: Most tokens of one forward while the caches are filled.
        kv_dtype: What keys and values are stored in at full precision by the caches under test;
            None for the model's own. The baseline always takes the model's.
        num_recent: Newest tokens that are never forgotten.
        seed: Seed of the random tokens.
    """

    seen: tuple[int, ...] = (1024, 4096, 8192, 16384)
    budget: int | float = 1024
    num_steps: int = 64
    block_steps: int = 8
    chunk_tokens: int = 256
    kv_dtype: str | None = None
    num_recent: int = 128
    seed: int = 0

    def __post_init__(self) -> None:
        """Check the ranges.

        Raises:
            ValueError: A value is out of its range.
        """
        if not self.seen or min(self.seen) < 1 or list(self.seen) != sorted(set(self.seen)):
            raise ValueError(f"seen must be different ascending numbers from 1, got {self.seen}")
        for name in ("num_steps", "block_steps", "chunk_tokens"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be 1 or more, got {getattr(self, name)}")
        if self.num_recent < 0:
            raise ValueError(f"num_recent must be 0 or more, got {self.num_recent}")
        is_share = isinstance(self.budget, float)
        if not (0 < self.budget <= 1 if is_share else self.budget >= 1):
            raise ValueError(
                f"budget must be a number of tokens from 1, or a share above 0 and at most 1, "
                f"got {self.budget}"
            )
        if self.kv_dtype not in (None, *STORAGE_DTYPES):
            raise ValueError(
                f"kv_dtype must be one of {', '.join(STORAGE_DTYPES)}, got {self.kv_dtype!r}"
            )

    def budget_tokens(self, seen: int) -> int:
        """Return the tokens at full precision that a cache of so many tokens seen may hold."""
        if isinstance(self.budget, float):
            return max(1, round(self.budget * seen))
        return self.budget
