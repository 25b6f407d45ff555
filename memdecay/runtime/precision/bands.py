"""Vectors stored in bands of elements with their own number of bits and scale.

Elements of a vector in a good basis differ in how much they carry. A band is a run of elements
that get the same number of bits; elements behind the last band are not stored and come back as
zero. Inside a band the vector is rotated by a Hadamard matrix, so that no element sticks out, and
quantized around zero with a scale of its own. The scale is a byte on a logarithmic axis.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from memdecay.runtime.precision.bitpack import pack, packed_bytes, unpack
from memdecay.runtime.precision.hadamard import hadamard_matrix

STEPS_PER_OCTAVE = 8
"""Steps of the scales' logarithmic axis from a scale to its double."""

SCALE_ZERO = 160
"""The byte of scale 1: scales reach from 2^-20 to 2^11.9."""

# Shares of the largest element that the outermost code may stand for. Fewer bits gain more from
# cutting the largest elements off than they lose by it; the best is chosen for every vector.
_CLIPS = {2: (1.0, 0.85, 0.7, 0.6, 0.5), 4: (1.0, 0.9, 0.8, 0.7), 8: (1.0,)}


@dataclass(frozen=True, slots=True)
class Band:
    """A run of elements that get the same number of bits.

    Attributes:
        size: How many elements, a multiple of 8.
        bits: Bits of each, one of 2, 4 and 8.
        num_scales: Into how many equal parts with a scale and a rotation of their own it is
            divided.
    """

    size: int
    bits: int
    num_scales: int = 1

    def __post_init__(self) -> None:
        """Check the ranges.

        Raises:
            ValueError: The size is no positive multiple of 8, the bits are none of 2, 4, 8, or
                the parts are not equal.
        """
        if self.size < 8 or self.size % 8:
            raise ValueError(f"a band's size must be a positive multiple of 8, got {self.size}")
        if self.num_scales < 1 or self.size % self.num_scales:
            raise ValueError(f"num_scales must divide {self.size}, got {self.num_scales}")
        packed_bytes(self.size, self.bits)

    @property
    def code_bytes(self) -> int:
        """Bytes of one vector's numbers in this band."""
        return packed_bytes(self.size, self.bits)

    @property
    def num_bytes(self) -> int:
        """Bytes of one vector's band, its scales included."""
        return self.code_bytes + self.num_scales

    @property
    def part_size(self) -> int:
        """Elements that share a scale."""
        return self.size // self.num_scales

    def encode(self, values: Tensor) -> tuple[Tensor, Tensor]:
        """Store values ``(..., size)``, float32, as packed codes and scales, uint8."""
        rotated = values @ _rotation(self).to(values.device)
        codes, scales = _quantize(self._parts(rotated), self.bits)
        return pack(codes.flatten(-2), self.bits), scales.squeeze(-1)

    def dequantize(self, stored: Tensor) -> Tensor:
        """Return values ``(..., size)``, float32, still rotated, from ``(..., num_bytes)``."""
        centre = 2 ** (self.bits - 1) - 0.5
        numbers = unpack(stored[..., : self.code_bytes], self.bits, centre)
        parts = self._parts(numbers)
        parts.mul_(scale_of(stored[..., self.code_bytes :]).unsqueeze(-1))
        return numbers

    def decode(self, stored: Tensor) -> Tensor:
        """Return values ``(..., size)``, float32, from ``(..., num_bytes)``, uint8."""
        parts = self._parts(self.dequantize(stored))
        return (parts @ hadamard_matrix(self.part_size).to(stored.device)).flatten(-2)

    def _parts(self, values: Tensor) -> Tensor:
        """View values ``(..., size)`` as ``(..., num_scales, part_size)``."""
        return values.view(*values.shape[:-1], self.num_scales, self.part_size)


@dataclass(frozen=True, slots=True)
class BandCodec:
    """Stores vectors of one length as bytes.

    Attributes:
        dim: Length of the vectors.
        bands: The bands, from the first element on.
    """

    dim: int
    bands: tuple[Band, ...]

    def __post_init__(self) -> None:
        """Check that the bands fit the vectors.

        Raises:
            ValueError: There is no band, or together they are longer than a vector.
        """
        if not self.bands or sum(band.size for band in self.bands) > self.dim:
            raise ValueError(f"bands must hold 1 to {self.dim} elements together, got {self.bands}")

    @property
    def num_bytes(self) -> int:
        """Bytes of one stored vector, scales included."""
        return sum(band.num_bytes for band in self.bands)

    @property
    def bits_per_element(self) -> float:
        """Bits of a stored vector over its length, scales included."""
        return 8 * self.num_bytes / self.dim

    def encode(self, vectors: Tensor) -> Tensor:
        """Store vectors ``(..., dim)``, float, as ``(..., num_bytes)``, uint8."""
        parts: list[Tensor] = []
        start = 0
        for band in self.bands:
            parts += band.encode(vectors[..., start : start + band.size].to(torch.float32))
            start += band.size
        return torch.cat(parts, dim=-1)

    @property
    def num_stored(self) -> int:
        """Elements of a vector that are stored."""
        return sum(band.size for band in self.bands)

    def decode(self, stored: Tensor) -> Tensor:
        """Return vectors ``(..., dim)``, float32, from ``(..., num_bytes)``, uint8."""
        parts = [band.decode(part) for band, part in self._split(stored)]
        if missing := self.dim - self.num_stored:
            parts.append(stored.new_zeros((*stored.shape[:-1], missing), dtype=torch.float32))
        return parts[0] if len(parts) == 1 else torch.cat(parts, dim=-1)

    def dequantize(self, stored: Tensor) -> Tensor:
        """Return the stored numbers ``(..., num_stored)``, float32, still rotated.

        ``dequantize(stored) @ synthesis()`` are the vectors. A further linear map can be joined
        to the synthesis and then costs nothing.
        """
        parts = [band.dequantize(part) for band, part in self._split(stored)]
        return parts[0] if len(parts) == 1 else torch.cat(parts, dim=-1)

    def synthesis(self, device: torch.device) -> Tensor:
        """Return the matrix ``(num_stored, dim)``, float32, that undoes the rotations."""
        return _synthesis(self).to(device)

    def _split(self, stored: Tensor) -> Iterator[tuple[Band, Tensor]]:
        offset = 0
        for band in self.bands:
            yield band, stored[..., offset : offset + band.num_bytes]
            offset += band.num_bytes


@functools.cache
def _rotation(band: Band) -> Tensor:
    """Return the rotation of a band's elements, ``(size, size)``, symmetric."""
    return torch.kron(torch.eye(band.num_scales), hadamard_matrix(band.part_size))


@functools.cache
def _synthesis(codec: BandCodec) -> Tensor:
    matrix = torch.zeros(codec.num_stored, codec.dim)
    start = 0
    for band in codec.bands:
        part = slice(start, start + band.size)
        matrix[part, part] = _rotation(band)
        start += band.size
    return matrix


def _quantize(values: Tensor, bits: int) -> tuple[Tensor, Tensor]:
    """Return codes ``(..., size)`` and scale bytes ``(..., 1)``, uint8, of the least error."""
    half = 2 ** (bits - 1)
    largest = values.abs().amax(dim=-1, keepdim=True)
    first, *others = (largest * (clip / (half - 0.5)) for clip in _CLIPS[bits])
    best = _scale_byte(first)
    if others:
        room = torch.empty_like(values)
        least = _error(values, best, half, room)
        for scale in others:
            scales = _scale_byte(scale)
            error = _error(values, scales, half, room)
            best = torch.where(error < least, scales, best)
            least = torch.minimum(error, least)
    codes = (values / scale_of(best)).floor_().clamp_(-half, half - 1)
    return codes.add_(half).to(torch.uint8), best


def _error(values: Tensor, scales: Tensor, half: int, room: Tensor) -> Tensor:
    """Return the squared error ``(..., 1)`` at some scales; ``room`` is like the values."""
    step = scale_of(scales)
    torch.div(values, step, out=room).floor_().clamp_(-half, half - 1)
    room.add_(0.5).mul_(step).sub_(values)
    return room.square_().sum(dim=-1, keepdim=True)


def _scale_byte(scale: Tensor) -> Tensor:
    """Round scales up to the logarithmic axis, so that the largest element is not cut off."""
    exponent = (scale.log2() * STEPS_PER_OCTAVE).ceil() + SCALE_ZERO
    return exponent.nan_to_num(neginf=0.0).clamp(0, 255).to(torch.uint8)


def scale_of(scale_bytes: Tensor) -> Tensor:
    """Return the scales that bytes stand for, float32, of the same shape."""
    exponents = scale_bytes.to(torch.float32) - SCALE_ZERO
    return torch.exp2(exponents / STEPS_PER_OCTAVE)
