"""What became of each token: when it faded or went, from which region, with which score."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from memdecay.classifier.regions import Region
from memdecay.runtime.fading import FORGOTTEN
from memdecay.runtime.metadata import Slots
from memdecay.runtime.precision.layout import FULL_BITS


@dataclass(frozen=True, slots=True)
class Fate:
    """Neighbouring tokens to which the same happened at the same moment.

    Attributes:
        start: Position of the first.
        stop: Position behind the last.
        bits: Bits they have now; 0 where they were forgotten.
        at: Tokens seen when it happened.
        region: Their region then.
        score: Their mean score then, on a logarithmic scale: the policy's ranking.
    """

    start: int
    stop: int
    bits: int
    at: int
    region: Region
    score: float


@dataclass(frozen=True, slots=True)
class Fates:
    """The latest change of every token seen, a row each; 13 bytes a token.

    Attributes:
        bits: Bits that the token has now, 0 once forgotten, shape ``(batch, seen)``, int8.
        at: Tokens seen when that changed last, shape ``(batch, seen)``, int32; 0 where it never
            did.
        regions: Its region then, shape ``(batch, seen)``, int8.
        scores: Its score then, shape ``(batch, seen)``, float32.
    """

    bits: Tensor
    at: Tensor
    regions: Tensor
    scores: Tensor

    @classmethod
    def empty(cls, batch_size: int, device: torch.device) -> Fates:
        """Return the fates of no tokens."""
        return cls(
            torch.zeros((batch_size, 0), dtype=torch.int8, device=device),
            torch.zeros((batch_size, 0), dtype=torch.int32, device=device),
            torch.zeros((batch_size, 0), dtype=torch.int8, device=device),
            torch.zeros((batch_size, 0), dtype=torch.float32, device=device),
        )

    def after(self, slots: Slots, bits: Tensor, scores: Tensor) -> Fates:
        """Note a change.

        Args:
            slots: The tokens that were kept before it.
            bits: What each has now, shape ``(batch, kept)``, int64; 0 for the forgotten.
            scores: What each scored, shape ``(batch, kept)``, float32.
        """
        grown = self._grown_to(slots.num_seen)
        places = slots.positions
        is_changed = bits != grown.bits.gather(1, places).to(bits.dtype)

        def note(column: Tensor, new: Tensor) -> Tensor:
            old = column.gather(1, places)
            return column.scatter(1, places, torch.where(is_changed, new.to(column.dtype), old))

        return Fates(
            note(grown.bits, bits),
            note(grown.at, torch.full_like(places, slots.num_seen)),
            note(grown.regions, slots.regions),
            note(grown.scores, scores),
        )

    def first(self, num_tokens: int) -> Fates:
        """Return the fates of the first tokens."""
        return self._map(lambda column: column[:, :num_tokens])

    def select_rows(self, rows: Tensor) -> Fates:
        """Return these rows in this order, ``rows`` of shape ``(new_batch,)``, int64."""
        return self._map(lambda column: column.index_select(0, rows.to(column.device)))

    def spans(self, row: int = 0) -> list[Fate]:
        """Return the runs of tokens of a row that faded or were forgotten, in the text's order."""
        bits, at, regions = self.bits[row].long(), self.at[row].long(), self.regions[row].long()
        if not len(bits):
            return []
        differs = (bits.diff() != 0) | (at.diff() != 0) | (regions.diff() != 0)
        edges = [0, *(differs.nonzero().squeeze(1) + 1).tolist(), len(bits)]
        return [
            Fate(
                start,
                stop,
                int(bits[start]),
                int(at[start]),
                Region(int(regions[start])),
                float(self.scores[row, start:stop].mean()),
            )
            for start, stop in itertools.pairwise(edges)
            if at[start] > 0
        ]

    def _grown_to(self, num_seen: int) -> Fates:
        num_new = num_seen - self.bits.shape[1]
        if num_new <= 0:
            return self
        grown = self._map(lambda column: torch.nn.functional.pad(column, (0, num_new)))
        grown.bits[:, -num_new:] = FULL_BITS
        return grown

    def _map(self, change: Callable[[Tensor], Tensor]) -> Fates:
        return replace(
            self,
            bits=change(self.bits),
            at=change(self.at),
            regions=change(self.regions),
            scores=change(self.scores),
        )


def bits_after(slots: Slots, indices: Tensor, bits: Tensor) -> Tensor:
    """Return the bits of every slot after some were kept.

    Args:
        slots: The tokens before.
        indices: Those that stay, shape ``(batch, kept)``, int64.
        bits: What these have now, shape ``(kept,)``, int64.

    Returns:
        Shape ``(batch, slots.num_kept)``, int64; `FORGOTTEN` for the others.
    """
    after = torch.full_like(slots.positions, FORGOTTEN)
    return after.scatter(1, indices, bits.expand_as(indices))
