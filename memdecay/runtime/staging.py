"""A move that is packed a few layers a step, so that no step pays for all of it.

All layers have to keep the same tokens at every forward, so nothing moves before everything is
packed: what is ready waits beside the cache, counted among its bytes, and takes its place at once.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from memdecay.runtime.fading_layer import FadingLayer
from memdecay.runtime.fading_move import PackedMove, alike, pack_group
from memdecay.runtime.layer import bookkeeping
from memdecay.runtime.metadata import Slots
from memdecay.runtime.precision.layout import Move
from memdecay.runtime.precision.rotary import Rotation
from memdecay.runtime.precision.transfer import Transfer, transfers_of


class StagedMove:
    """A planned move, packed group by group while tokens go on being appended.

    Args:
        move: What was planned.
        worth: The logarithm of what each token is worth, ``(batch, kept)``, float32.
        slots: The tokens that were kept then.
        layers: All layers that fade.
        room: Tokens at full precision for which the plan makes room.
    """

    def __init__(
        self,
        move: Move,
        worth: Tensor,
        slots: Slots,
        layers: Sequence[FadingLayer],
        room: int,
    ) -> None:
        self.transfers = transfers_of(move)
        self._move = move
        self._worth = worth
        self._num_seen = slots.num_seen
        self._room = room
        self._open = [*alike(layers)]
        self._packed: list[PackedMove] = []
        self.total_bytes = sum(_bytes_in(layer, self.transfers) for layer in layers)

    @property
    def nbytes(self) -> int:
        """Bytes of what is packed and waits."""
        pools = (pool for part in self._packed for own in part.packed for pool in own)
        return sum(pool.nbytes for pool in pools)

    @property
    def is_packed(self) -> bool:
        """Whether nothing is left to pack."""
        return not self._open

    def pack_next(self, rotation: Rotation) -> None:
        """Pack the next group of layers, if one is left.

        Args:
            rotation: The rotation of every kept token, in the order before the move.
        """
        if self._open:
            with bookkeeping():
                group = self._open.pop(0)
                self._packed.append(pack_group(group, self.transfers, rotation))

    def room_now(self, slots: Slots) -> int:
        """Return the room that is left of what was planned, after the tokens since."""
        return self._room - (slots.num_seen - self._num_seen)

    def parts(self) -> list[PackedMove]:
        """Return what is packed."""
        return self._packed

    def move_now(self, slots: Slots) -> tuple[Move, Tensor]:
        """Return the move and the tokens' worth with the tokens appended since, which stay."""
        num_new = slots.num_seen - self._num_seen
        before, indices = self._move.before, self._move.indices
        first = before.num_tokens
        new = torch.arange(first, first + num_new, device=indices.device)
        return (
            Move(
                before.with_new(num_new),
                self._move.after.with_new(num_new),
                torch.cat([indices, new.expand(len(indices), num_new)], dim=1),
            ),
            torch.nn.functional.pad(self._worth, (0, num_new)),
        )


def _bytes_in(layer: FadingLayer, transfers: Sequence[Transfer]) -> int:
    """Return the bytes of a layer's tokens that change step, at their new one."""
    step_bytes = layer.step_bytes
    return sum(
        len(transfer.places) * step_bytes[transfer.bits]
        for transfer in transfers
        if transfer.changes_step
    )
