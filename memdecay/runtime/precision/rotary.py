"""Taking the rotary position out of keys and putting it back.

Keys before their rotation have a mean and a few directions that carry most of them; the rotation
smears both over all elements. So keys are quantized without it.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn


@dataclass(frozen=True, slots=True)
class Rotation:
    """Cosines and sines of some positions.

    Attributes:
        cos: ``(batch, 1, n, rotary_dim / 2)``, float32.
        sin: The same shape.
    """

    cos: Tensor
    sin: Tensor

    def turn(self, keys: Tensor) -> Tensor:
        """Turn keys ``(batch, heads, n, head_dim)`` forward by their positions, float32."""
        return _turn(keys, self.cos, self.sin)

    def turn_back(self, keys: Tensor) -> Tensor:
        """Undo `turn`."""
        return _turn(keys, self.cos, -self.sin)

    def at(self, start: int, stop: int) -> Rotation:
        """Return the rotation of a run of positions."""
        return Rotation(self.cos[:, :, start:stop], self.sin[:, :, start:stop])

    def rows(self, rows: slice) -> Rotation:
        """Return the rotation of some rows."""
        return Rotation(self.cos[rows], self.sin[rows])

    def pick(self, places: Tensor) -> Rotation:
        """Return the rotation of some positions by their places ``(n,)``, int64."""
        return Rotation(self.cos[:, :, places], self.sin[:, :, places])


@dataclass(frozen=True, slots=True)
class RotaryFrequencies:
    """How far a key turns with every position: the first elements of a head, in halves.

    The frequencies are copied once. Some models change theirs when a text grows long; here
    `Rotation.turn` has to undo `Rotation.turn_back` whatever happened in between. For the same
    reason nothing breaks, and only compression suffers, where a model turns its keys otherwise.

    Attributes:
        inverse: Radians a position, ``(rotary_dim / 2,)``, float32; empty turns nothing.
    """

    inverse: Tensor

    @classmethod
    def none(cls) -> RotaryFrequencies:
        """Return frequencies that turn nothing."""
        return cls(torch.zeros(0))

    @classmethod
    def of(cls, decoder: nn.Module, layer_type: str = "full_attention") -> RotaryFrequencies:
        """Copy a decoder's frequencies; none where it has no rotary embedding.

        Args:
            decoder: The part of a model that holds the layers.
            layer_type: Which of several rotations, for models with one a type of layer.
        """
        embedding = getattr(decoder, "rotary_emb", None)
        for name in (f"{layer_type}_inv_freq", "inv_freq"):
            inverse = getattr(embedding, name, None)
            if isinstance(inverse, Tensor) and inverse.ndim == 1:
                return cls(inverse.detach().to(torch.float32).clone())
        return cls.none()

    def rotation(self, positions: Tensor) -> Rotation:
        """Return the rotation of positions ``(batch, n)``, int64."""
        inverse = self.inverse.to(positions.device)
        angles = positions.to(torch.float32)[:, None, :, None] * inverse
        return Rotation(angles.cos(), angles.sin())


def _turn(keys: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    keys = keys.to(torch.float32)
    half = cos.shape[-1]
    if not half:
        return keys
    first, second = keys[..., :half], keys[..., half : 2 * half]
    turned = torch.empty_like(keys)
    torch.mul(first, cos, out=turned[..., :half]).addcmul_(second, sin, value=-1)
    torch.mul(second, cos, out=turned[..., half : 2 * half]).addcmul_(first, sin)
    turned[..., 2 * half :] = keys[..., 2 * half :]
    return turned
