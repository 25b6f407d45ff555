"""One attention layer's keys and values, of which the older ones lose precision step by step."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial

import torch
from torch import Tensor

from memdecay.classifier.errors import ModelError
from memdecay.runtime.layer import EvictingLayer, bookkeeping
from memdecay.runtime.packed_states import MixedStates, PackedStates, Unpacking
from memdecay.runtime.precision.basis import KeyBasis
from memdecay.runtime.precision.kernels.dispatch import find_kernel, unpack_into
from memdecay.runtime.precision.kernels.parts import PackedPart
from memdecay.runtime.precision.layout import FULL_BITS, Layout, Move
from memdecay.runtime.precision.pool import Pool
from memdecay.runtime.precision.positions import FadedPositions
from memdecay.runtime.precision.rotary import Rotation
from memdecay.runtime.precision.tiers import Tier, make_tier
from memdecay.runtime.precision.transfer import Transfer


class FadingLayer(EvictingLayer):
    """An evicting layer whose buffers hold the newest tokens, with packed ones before them.

    ``keys`` and ``values`` are views of the part at full precision. `update` returns the packed
    tokens too: unpacked for this one forward, or as `PackedStates` where it brings one token.

    Args:
        capacity: Tokens the buffers have room for at first; `move` sets it anew.
        steps: Bits of the steps below full precision.
        positions: Where the packed tokens stand in the text; shared by all layers.
        storage_dtype: See `EvictingLayer`.

    Attributes:
        hands_out_packed: Whether `update` may return `PackedStates`, see
            `BudgetedLayers.handing_out_packed`.
    """

    def __init__(
        self,
        capacity: int,
        steps: Sequence[int],
        positions: FadedPositions,
        storage_dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__(capacity, storage_dtype=storage_dtype)
        self.hands_out_packed = False
        self._full_capacity = capacity
        self._steps = tuple(sorted(steps))
        self._tiers: dict[int, Tier] = {}
        self._positions = positions
        self._pools: dict[int, Pool] = {}
        self._basis: KeyBasis | None = None

    @property
    def num_kept(self) -> int:
        """Tokens that each row still holds, packed ones included."""
        return self.num_buffered + sum(pool.num_tokens for pool in self._pools.values())

    @property
    def room(self) -> int:
        """Tokens that fit the buffers without growth."""
        return self.capacity - self.num_buffered

    @property
    def allocated_bytes(self) -> int:
        """Bytes of the buffers, of the packed tokens and of the basis of the keys."""
        packed = sum(pool.nbytes for pool in self._pools.values())
        return super().allocated_bytes + packed + (self._basis.nbytes if self._basis else 0)

    @property
    def has_basis(self) -> bool:
        """Whether a token was packed before."""
        return self._basis is not None

    @property
    def basis_bytes(self) -> int:
        """Bytes of the basis of the keys, which exists once a token is packed."""
        heads, width = self.keys.shape[1], self.keys.shape[3]
        return KeyBasis.bytes_for(heads, width)

    @property
    def layout(self) -> Layout:
        """How many tokens stand at each step."""
        counts = (
            self._pools[bits].num_tokens if bits in self._pools else 0 for bits in self._steps
        )
        return Layout((*self._steps, FULL_BITS), (*counts, self.num_buffered))

    @property
    def step_bytes(self) -> dict[int, int]:
        """Bytes of one token of one row at each step, full precision included.

        Raises:
            ModelError: The heads' width can't be quantized.
        """
        num_heads = self.keys.shape[1]
        tiers = self._known_tiers()
        full = (self.keys.shape[3] + self.values.shape[3]) * self.keys.element_size()
        packed = {bits: tiers[bits].num_bytes * num_heads for bits in self._steps}
        return {**packed, FULL_BITS: full * num_heads}

    @property
    def noises(self) -> dict[int, float]:
        """What each step loses, see `Tier.noise`."""
        return {**{bits: tier.noise for bits, tier in self._known_tiers().items()}, FULL_BITS: 0.0}

    @property
    def tiers(self) -> Mapping[int, Tier]:
        """The steps below full precision by their bits."""
        return self._known_tiers()

    @property
    def basis(self) -> KeyBasis:
        """The basis of the keys; there is one once `fit_basis` was called."""
        return self._known_basis()

    def fit_basis(self, rotation: Rotation) -> None:
        """Find the basis of the keys, if there is none yet.

        Args:
            rotation: The rotation of every kept token; all are still at full precision.
        """
        if self._basis is None:
            with bookkeeping():
                self._basis = self._fitted(rotation)

    def full_states(self, transfer: Transfer) -> tuple[Tensor, Tensor]:
        """Return keys and values ``(1, heads, n, head_dim)`` of tokens at full precision."""
        own = transfer.rows
        return self.keys[own][:, :, transfer.places], self.values[own][:, :, transfer.places]

    def packed(self, transfer: Transfer) -> Pool:
        """Return tokens that are packed, as they stand now; all of a step's are not copied."""
        pool = self._pools[transfer.from_bits].at_rows(transfer.rows)
        if len(transfer.places) == pool.num_tokens:
            return pool
        return pool.pick(transfer.places.unsqueeze(0))

    def move(
        self, move: Move, transfers: Sequence[Transfer], packed: Iterable[Pool], room: int
    ) -> None:
        """Give tokens up and let others lose precision.

        Args:
            move: Which tokens stand where from now on.
            transfers: The move taken apart, see `transfers_of`.
            packed: The tokens of each transfer that changes their step, packed at the new one.
            room: Tokens that the buffers have room for behind those at full precision.
        """
        with bookkeeping():
            fresh = iter(packed)
            parts: dict[int, dict[int, list[Pool]]] = {}
            for transfer in transfers:
                pool = next(fresh) if transfer.changes_step else self.packed(transfer)
                parts.setdefault(transfer.bits, {}).setdefault(transfer.row, []).append(pool)
            pools = {
                bits: Pool.join([Pool.join(own, dim=2) for own in by_row.values()], dim=0)
                for bits, by_row in parts.items()
            }
            self.capacity = move.after.num_full + room
            self.keep(move.indices[:, move.after.num_faded :] - move.before.num_faded)
            self._pools = pools

    def crop(self, tokens_to_remove: int) -> None:
        """Take back the newest ``-tokens_to_remove`` tokens, all still at full precision.

        Raises:
            ValueError: The number is positive, or some of the tokens have lost precision.
        """
        if -tokens_to_remove > self.num_buffered:
            raise ValueError(
                f"cannot take back {-tokens_to_remove} tokens, only {self.num_buffered} are still "
                "at full precision; set num_recent to the most that will be taken back"
            )
        super().crop(tokens_to_remove)

    def select_rows(self, rows: Tensor) -> None:
        """Make these rows, in this order, the batch; ``rows`` of shape ``(new_batch,)``, int64."""
        super().select_rows(rows)
        with bookkeeping():
            self._pools = {
                bits: pool.rows(rows.to(pool.keys.device)) for bits, pool in self._pools.items()
            }

    def reset(self) -> None:
        """Forget everything, the basis too, and free the buffers."""
        super().reset()
        self.capacity = self._full_capacity
        self._pools = {}
        self._basis = None

    def dense(self, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        """Unpack the packed tokens and put those at full precision behind them."""
        if not self._pools:
            return super().dense(dtype)
        keys, values = self._around(self.keys, dtype), self._around(self.values, dtype)
        unpack_into(keys, values, self._parts())
        return keys, values

    def _dense_keys(self, dtype: torch.dtype) -> Tensor:
        keys = self._around(self.keys, dtype)
        unpack_into(keys, None, self._parts())
        return keys

    def _dense_values(self, dtype: torch.dtype) -> Tensor:
        values = self._around(self.values, dtype)
        unpack_into(None, values, self._parts())
        return values

    def _around(self, exact: Tensor, dtype: torch.dtype) -> Tensor:
        """Return room for the packed tokens with those at full precision behind it."""
        batch_size, num_heads, num_exact, width = exact.shape
        states = exact.new_empty((batch_size, num_heads, self.num_kept, width), dtype=dtype)
        states[:, :, self.num_kept - num_exact :].copy_(exact)
        return states

    def _shown_to(self, key_states: Tensor) -> tuple[Tensor, Tensor]:
        is_single = key_states.shape[2] == 1
        if not (self._pools and is_single and self.hands_out_packed):
            return super()._shown_to(key_states)
        if find_kernel(key_states.device) is None:
            return super()._shown_to(key_states)
        dtype = key_states.dtype
        mixed = MixedStates(self._parts(), self.keys, self.values)
        unpacking = Unpacking(partial(self._dense_keys, dtype), partial(self._dense_values, dtype))
        return PackedStates.pair(mixed, unpacking, dtype)

    def _mark_of(self, key_states: Tensor) -> tuple[int, torch.Size]:
        if isinstance(key_states, PackedStates):
            return id(key_states.mixed), key_states.shape
        return super()._mark_of(key_states)

    def _parts(self) -> tuple[PackedPart, ...]:
        """Return the packed tokens with what unpacks them."""
        tiers, basis, rotation = (
            self._known_tiers(),
            self._known_basis(),
            self._positions.rotation(),
        )
        return tuple(
            PackedPart(self._pools[bits], tiers[bits], basis, rotation.at(start, stop))
            for bits, start, stop in self.layout.ranges()
            if bits in self._pools
        )

    def _fitted(self, rotation: Rotation) -> KeyBasis:
        """Fit the basis to all tokens, which are still at full precision."""
        keys = rotation.turn_back(self.keys)  # (batch, heads, n, head_dim)
        return KeyBasis.fit(keys.transpose(0, 1).flatten(1, 2))

    def _known_tiers(self) -> dict[int, Tier]:
        """Return the steps for this layer's heads, whose width the first update told."""
        if not self._tiers:
            widths = self.keys.shape[3], self.values.shape[3]
            try:
                self._tiers = {bits: make_tier(bits, *widths) for bits in self._steps}
            except ValueError as error:
                raise ModelError(
                    f"the cache can't store this model's heads at fewer bits: {error}; "
                    "turn fading off"
                ) from error
        return self._tiers

    def _known_basis(self) -> KeyBasis:
        assert self._basis is not None, "tokens are packed in a basis"
        return self._basis
