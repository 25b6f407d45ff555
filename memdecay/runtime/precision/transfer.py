"""A move, taken apart into tokens that stay at a step or go to another."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from memdecay.runtime.precision.layout import FULL_BITS, Move


@dataclass(frozen=True, slots=True)
class Transfer:
    """Tokens of one row that stand at one step now and at one, maybe the same, afterwards.

    Attributes:
        row: The row.
        bits: The step they go to, below full precision.
        from_bits: The step they stand at.
        first_place: Place of that step's first token.
        places: Their places within that step, ascending, ``(n,)``, int64.
    """

    row: int
    bits: int
    from_bits: int
    first_place: int
    places: Tensor

    @property
    def changes_step(self) -> bool:
        """Whether they have to be packed anew."""
        return self.bits != self.from_bits

    @property
    def rows(self) -> slice:
        """The row, as a batch of one."""
        return slice(self.row, self.row + 1)

    @property
    def all_places(self) -> Tensor:
        """Their places among all tokens of the row, ``(n,)``, int64."""
        return self.places + self.first_place


def transfers_of(move: Move) -> list[Transfer]:
    """Take a move apart: by step, then by row, then by the step where the tokens come from.

    Tokens that stay at full precision are left out.
    """
    found = []
    for bits, start, stop in move.after.ranges():
        if bits == FULL_BITS:
            continue
        for row, indices in enumerate(move.indices[:, start:stop]):
            for from_bits, first, end in move.before.ranges():
                places = indices[(indices >= first) & (indices < end)] - first
                if len(places):
                    found.append(Transfer(row, bits, from_bits, first, places))
    return found
