"""One layer's tokens at one step of precision, packed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from memdecay.runtime.precision.basis import KeyBasis
from memdecay.runtime.precision.picking import pick_tokens
from memdecay.runtime.precision.rotary import Rotation
from memdecay.runtime.precision.tiers import Tier

_TOKENS_AT_ONCE = 1024


@dataclass(frozen=True, slots=True)
class Pool:
    """Packed keys and values of some tokens.

    Attributes:
        keys: ``(batch, heads, n, key bytes)``, uint8.
        values: ``(batch, heads, n, value bytes)``, uint8.
    """

    keys: Tensor
    values: Tensor

    @property
    def num_tokens(self) -> int:
        """Tokens of each row."""
        return self.keys.shape[2]

    @property
    def nbytes(self) -> int:
        """Bytes of both."""
        return self.keys.nbytes + self.values.nbytes

    @classmethod
    def encode(
        cls, keys: Tensor, values: Tensor, tier: Tier, basis: KeyBasis, rotation: Rotation
    ) -> Pool:
        """Pack keys and values ``(batch, heads, n, head_dim)``."""
        coordinates = basis.into(rotation.turn_back(keys))
        return cls(tier.key.encode(coordinates), tier.value.encode(values))

    def decode(self, tier: Tier, basis: KeyBasis, rotation: Rotation) -> tuple[Tensor, Tensor]:
        """Return keys and values ``(batch, heads, n, head_dim)``, float32."""
        keys = torch.empty((*self.keys.shape[:3], tier.key.dim), device=self.keys.device)
        values = torch.empty((*self.values.shape[:3], tier.value.dim), device=self.values.device)
        self.decode_into(keys, values, tier, basis, rotation)
        return keys, values

    def decode_into(
        self,
        keys: Tensor | None,
        values: Tensor | None,
        tier: Tier,
        basis: KeyBasis,
        rotation: Rotation,
    ) -> None:
        """Write keys and values into tensors ``(batch, heads, n, head_dim)`` of any dtype.

        None in place of one leaves it packed.

        Runs of tokens go through all steps one after the other: what one step wrote is still in
        the processor's cache when the next one reads it.
        """
        key_synthesis = tier.key.synthesis(self.keys.device)
        run = self.num_tokens if self.keys.is_cuda else _TOKENS_AT_ONCE
        for start in range(0, self.num_tokens, run):
            part = slice(start, start + run)
            if keys is not None:
                stored = tier.key.dequantize(self.keys[:, :, part])
                turned = rotation.at(start, start + run).turn(basis.out_of(stored, key_synthesis))
                keys[:, :, part].copy_(turned)
            if values is not None:
                values[:, :, part].copy_(tier.value.decode(self.values[:, :, part]))

    def pick(self, indices: Tensor) -> Pool:
        """Return these tokens of each row, ``indices`` of shape ``(batch, n)``, int64."""
        return Pool(*pick_tokens(self.keys, self.values, indices))

    def rows(self, rows: Tensor) -> Pool:
        """Return these rows, ``rows`` of shape ``(new_batch,)``, int64."""
        return Pool(self.keys.index_select(0, rows), self.values.index_select(0, rows))

    def at_rows(self, rows: slice) -> Pool:
        """Return a run of rows, without copying them."""
        return Pool(self.keys[rows], self.values[rows])

    def split_heads(self, nums_heads: Sequence[int]) -> list[Pool]:
        """Return the pools of runs of heads, each in tensors of its own."""
        keys = torch.split(self.keys, [*nums_heads], dim=1)
        values = torch.split(self.values, [*nums_heads], dim=1)
        return [
            Pool(own_keys.clone(), own_values.clone())
            for own_keys, own_values in zip(keys, values, strict=True)
        ]

    @classmethod
    def join(cls, pools: Sequence[Pool], dim: int) -> Pool:
        """Put pools one behind the other along rows (0), heads (1) or tokens (2)."""
        if len(pools) == 1:
            return pools[0]
        return cls(
            torch.cat([pool.keys for pool in pools], dim=dim),
            torch.cat([pool.values for pool in pools], dim=dim),
        )
