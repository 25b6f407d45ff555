"""How the tokens are shared out among a kernel's programs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

MOST_SPLITS = 128


@dataclass(frozen=True, slots=True)
class Splits:
    """Runs of tokens of equal length, each inside one part.

    Attributes:
        run: Tokens of a split, a multiple of the block; the last of a part may have fewer.
        ends: For each part the splits up to its end, those of the parts before it included.
    """

    run: int
    ends: tuple[int, ...]

    @property
    def num_splits(self) -> int:
        """Splits of all parts together."""
        return self.ends[-1]

    @classmethod
    def share(cls, counts: Sequence[int], block: int, wanted: int) -> Splits:
        """Share tokens out.

        Args:
            counts: Tokens of each part, each at least 1.
            block: Tokens that a program attends to at once.
            wanted: About how many splits there should be; at most `MOST_SPLITS` are made, as long
                as there are fewer parts.
        """
        most = max(1, min(wanted, MOST_SPLITS) - (len(counts) - 1))
        blocks = sum(math.ceil(count / block) for count in counts)
        run = math.ceil(blocks / most) * block
        ends: list[int] = []
        for count in counts:
            ends.append((ends[-1] if ends else 0) + math.ceil(count / run))
        return cls(run, tuple(ends))
