"""The part of the cache in which tokens lose precision: moves, at once or a few layers a step."""

from __future__ import annotations

from abc import abstractmethod

import torch
from torch import Tensor

from memdecay.classifier.regions import RegionTable
from memdecay.runtime.budgeted import BudgetedLayers
from memdecay.runtime.config import CacheConfig
from memdecay.runtime.fading_move import alike
from memdecay.runtime.fading_plan import plan_early_move, plan_move, room_gained
from memdecay.runtime.guards import chunk_error, num_safe
from memdecay.runtime.late_tagging import promote
from memdecay.runtime.layer import bookkeeping
from memdecay.runtime.metadata import Slots
from memdecay.runtime.policies import EvictionPolicy
from memdecay.runtime.precision.layout import Move
from memdecay.runtime.precision.rotary import Rotation
from memdecay.runtime.staging import StagedMove


class FadingCache(BudgetedLayers):
    """Buffers whose tokens move to coarser steps when others need room.

    Attributes:
        config: Budget, guards and policy.
        policy: Ranks the tokens.
        region_table: Score and decay of every region.
    """

    config: CacheConfig
    policy: EvictionPolicy
    region_table: RegionTable
    _slots: Slots | None
    _staged: StagedMove | None

    @property
    @abstractmethod
    def slots(self) -> Slots:
        """What is known about the kept tokens."""

    @property
    @abstractmethod
    def tokens_kept(self) -> int:
        """Tokens each row still holds."""

    @abstractmethod
    def _keep_slots(self, slots: Slots, indices: Tensor, bits: Tensor, scores: Tensor) -> int:
        """Note that these slots stay, in this order; return how many tokens each row lost."""

    @abstractmethod
    def _foreseen(self) -> Slots:
        """Return the slots, every token with what is foreseen of it."""

    @property
    def waiting_bytes(self) -> int:
        """Bytes of tokens that are packed ahead of a move."""
        return 0 if self._staged is None else self._staged.nbytes

    def give_up_waiting(self) -> None:
        """Give up what is packed ahead of the next move, which is planned anew when it comes."""
        self._drop_staged()

    def _make_room_by_fading(self, num_new: int) -> int:
        if self._room() >= num_new:
            return 0
        protected = min(self.tokens_kept, num_safe(self._slots, self.config))
        if num_new + protected > self.config.budget_tokens:
            raise chunk_error(num_new, self._slots, self.config)
        if self._staged is not None and self._staged.room_now(self.slots) >= num_new:
            return self._finish_staged(self._staged)
        return self._fade(max(num_new, self.config.fading_room_tokens))

    def _room(self) -> int:
        return self._fading_layers[0].room

    def _fade(self, room: int) -> int:
        self._drop_staged()
        slots = self._foreseen()
        if not slots.num_kept:
            return 0
        with bookkeeping():
            slots = promote(slots, self.config, self.region_table)
            move, worth = plan_move(slots, self.policy, self.config, self._fading_layers, room)
            self._move_in_layers(move, self._rotation_of(slots), room)
        return self._keep_moved(slots, move, worth)

    def _fade_early(self) -> int:
        """Let tokens far below the threshold fade or go, and use their bytes as room."""
        if self._staged is not None:
            return 0
        slots, layers = self._foreseen(), self._fading_layers
        with bookkeeping():
            move, worth = plan_early_move(slots, self.policy, self.config, layers)
            gained = room_gained(move, layers)
            if gained <= 0:
                return 0
            self._move_in_layers(move, self._rotation_of(slots), self._room() + gained)
        return self._keep_moved(slots, move, worth)

    def _keep_moved(self, slots: Slots, move: Move, worth: Tensor) -> int:
        assert self._faded is not None, "a cache that fades has positions of faded tokens"
        with bookkeeping():
            self._faded.set(_real(slots).gather(1, move.indices)[:, : move.after.num_faded])
        bits = torch.tensor(move.after.bits, device=worth.device)[move.after.steps(worth.device)]
        return self._keep_slots(slots, move.indices, bits, worth)

    def _rotation_of(self, slots: Slots) -> Rotation:
        assert self._faded is not None, "a cache that fades has positions of faded tokens"
        return self._faded.rotation_of(_real(slots))

    # Packing ahead of a move, a few layers a step

    def _pack_ahead(self) -> None:
        """Do one step's share of the next move where room runs short."""
        if not self.config.fading.staging_share:
            return
        if self._staged is None:
            self._plan_ahead()
        elif not self._staged.is_packed:
            before = self._staged.nbytes
            with bookkeeping():
                self._staged.pack_next(self._rotation_of(self.slots))
            self._bytes.settle(before, self._staged.nbytes)

    def _plan_ahead(self) -> None:
        layers = self._fading_layers
        # A step for the plan, one for every group, one to spare.
        if self._room() > len([*alike(layers)]) + 2 or not layers[0].layout.num_faded:
            return
        with bookkeeping():
            slots = promote(self._foreseen(), self.config, self.region_table)
            room = self.config.fading_room_tokens + max(self._room(), 0)
            move, worth = plan_move(slots, self.policy, self.config, layers, room)
            staged = StagedMove(move, worth, slots, layers, room)
        budget = self.config.budget_tokens * self.bytes_per_token
        if self.allocated_bytes + staged.total_bytes <= budget:
            self._slots, self._staged = slots, staged

    def _finish_staged(self, staged: StagedMove) -> int:
        slots = self.slots
        with bookkeeping():
            while not staged.is_packed:
                self._pack_ahead()
            move, worth = staged.move_now(slots)
            self._move_staged(staged, move, staged.room_now(slots))
        self._staged = None
        return self._keep_moved(slots, move, worth)

    def _drop_staged(self) -> None:
        if self._staged is not None:
            self._bytes.settle(self._staged.nbytes, 0)
            self._staged = None


def _real(slots: Slots) -> Tensor:
    """Return the positions without padding, as the model numbers them."""
    return (slots.positions - slots.pad_lengths.unsqueeze(1)).clamp_min(0)
