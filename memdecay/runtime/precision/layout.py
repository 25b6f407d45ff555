"""Where the kept tokens stand: the coarsest step first, full precision last."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

FULL_BITS = 16
"""Stands for full precision, whatever the cache's dtype."""


@dataclass(frozen=True, slots=True)
class Layout:
    """How many tokens of each row stand at each step.

    Attributes:
        bits: The steps in order of place, coarsest first; the last is `FULL_BITS`.
        counts: Tokens of each.
    """

    bits: tuple[int, ...]
    counts: tuple[int, ...]

    @classmethod
    def all_full(cls, bits: tuple[int, ...], num_tokens: int) -> Layout:
        """Return a layout with every token at full precision."""
        return cls(bits, (*(0 for _ in bits[1:]), num_tokens))

    @property
    def num_tokens(self) -> int:
        """Tokens of each row."""
        return sum(self.counts)

    @property
    def num_full(self) -> int:
        """Tokens of each row at full precision."""
        return self.counts[-1]

    @property
    def num_faded(self) -> int:
        """Tokens of each row below full precision."""
        return self.num_tokens - self.num_full

    def with_new(self, num_new: int) -> Layout:
        """Add tokens at full precision; below zero takes them away."""
        return Layout(self.bits, (*self.counts[:-1], self.counts[-1] + num_new))

    def ranges(self) -> Iterator[tuple[int, int, int]]:
        """Yield each step's bits, first place and the place behind its last."""
        start = 0
        for bits, count in zip(self.bits, self.counts, strict=True):
            yield bits, start, start + count
            start += count

    def steps(self, device: torch.device) -> Tensor:
        """Return the index in ``bits`` of the token at each place, ``(num_tokens,)``, int64."""
        index = torch.arange(len(self.bits), device=device)
        return index.repeat_interleave(torch.tensor(self.counts, device=device))


@dataclass(frozen=True, slots=True)
class Move:
    """Which tokens stand where from now on; tokens that are not named are forgotten.

    Attributes:
        before: The layout that the indices count in.
        after: The layout that results.
        indices: Places in ``before``, in the order of ``after``: inside a step they ascend.
            Shape ``(batch, after.num_tokens)``, int64. No token moves to a finer step.
    """

    before: Layout
    after: Layout
    indices: Tensor
