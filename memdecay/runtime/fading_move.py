"""Packing the tokens that move, for several layers at a time.

A move packs a handful of tokens in every layer. Layer by layer that is thousands of tiny
operations in one step; with the layers' heads side by side it is a few dozen.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from memdecay.runtime.fading_layer import FadingLayer
from memdecay.runtime.precision.basis import KeyBasis
from memdecay.runtime.precision.layout import FULL_BITS
from memdecay.runtime.precision.pool import Pool
from memdecay.runtime.precision.rotary import Rotation
from memdecay.runtime.precision.transfer import Transfer

_LAYERS_AT_ONCE = 8
"""Bounds the copies that exist while tokens move."""


@dataclass(frozen=True, slots=True)
class PackedMove:
    """A group of layers and their tokens that change step, packed anew.

    Attributes:
        layers: The group.
        packed: For each of its layers, a pool for each transfer that changes the step, in the
            order of the transfers.
    """

    layers: Sequence[FadingLayer]
    packed: Sequence[Sequence[Pool]]


def pack_group(
    group: Sequence[FadingLayer], transfers: Sequence[Transfer], rotation: Rotation
) -> PackedMove:
    """Pack what changes its step in layers whose heads can stand side by side.

    Args:
        group: One of the groups of `alike`.
        transfers: What the move does, see `transfers_of`.
        rotation: The rotation of every kept token, in the order before the move.
    """
    if transfers:
        for layer in group:
            layer.fit_basis(rotation)
    by_transfer = [
        _pack(group, transfer, rotation) for transfer in transfers if transfer.changes_step
    ]
    return PackedMove(group, [*zip(*by_transfer, strict=True)] or [()] * len(group))


def alike(layers: Sequence[FadingLayer]) -> Iterator[Sequence[FadingLayer]]:
    """Yield neighbouring layers whose heads can stand side by side, a few at a time."""
    group: list[FadingLayer] = []
    for layer in layers:
        if group and (len(group) == _LAYERS_AT_ONCE or _kind(layer) != _kind(group[0])):
            yield group
            group = []
        group.append(layer)
    if group:
        yield group


def _kind(layer: FadingLayer) -> tuple[object, ...]:
    keys, values = layer.keys, layer.values
    return keys.device, keys.dtype, keys.shape[3], values.shape[3]


def _pack(group: Sequence[FadingLayer], transfer: Transfer, rotation: Rotation) -> list[Pool]:
    """Return the tokens of one transfer in each layer of a group, packed at their new step."""
    tiers = group[0].tiers
    basis = KeyBasis.join([layer.basis for layer in group])
    own = rotation.rows(transfer.rows).pick(transfer.all_places)
    keys, values = _unpacked(group, transfer, basis, own)
    together = Pool.encode(keys, values, tiers[transfer.bits], basis, own)
    return together.split_heads([layer.keys.shape[1] for layer in group])


def _unpacked(
    group: Sequence[FadingLayer], transfer: Transfer, basis: KeyBasis, own: Rotation
) -> tuple[Tensor, Tensor]:
    """Return keys and values ``(1, all heads, n, head_dim)`` of the tokens as they stand now."""
    if transfer.from_bits == FULL_BITS:
        states = [layer.full_states(transfer) for layer in group]
        keys, values = zip(*states, strict=True)
        return torch.cat(keys, dim=1), torch.cat(values, dim=1)
    stored = Pool.join([layer.packed(transfer) for layer in group], dim=1)
    return stored.decode(group[0].tiers[transfer.from_bits], basis, own)
