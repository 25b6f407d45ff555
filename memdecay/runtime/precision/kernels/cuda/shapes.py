"""What is fixed when a kernel is compiled: widths and how the bytes of a token are laid out."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from memdecay.runtime.precision.bands import BandCodec
from memdecay.runtime.precision.kernels.parts import PackedPart

WIDEST_HEAD = 256
MOST_PARTS = 3
LEAST_WIDTH = 16
"""Elements that a matrix product needs along each of its axes."""

BandShape = tuple[int, int, int, int, int]
"""Bits, elements, elements filled up to a power of two, the first element and the first byte."""


Constant = int | tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Shapes:
    """Widths and layouts that the kernels are compiled for.

    Attributes:
        bands: For each part the bands of a key.
        key_bytes: For each part the bytes of a key.
        value_bits: For each part the bits of a value's elements.
        value_bytes: For each part the bytes of a value.
        head_dim: Width of a key.
        half: Half of its elements that are turned by its position.
        num_scales: Scales of a value.
        scale_size: Elements of a value that share one.
    """

    bands: tuple[tuple[BandShape, ...], ...]
    key_bytes: tuple[int, ...]
    value_bits: tuple[int, ...]
    value_bytes: tuple[int, ...]
    head_dim: int
    half: int
    num_scales: int
    scale_size: int

    @classmethod
    def of(cls, parts: Sequence[PackedPart]) -> Shapes | None:
        """Return the constants for these parts; None where the kernels can't do them.

        They can where there are at most `MOST_PARTS`, a head has at most `WIDEST_HEAD` elements, a
        band of a key has one scale, and values are one band, rotated alike in all parts, by powers
        of two.
        """
        keys, values = [part.tier.key for part in parts], [part.tier.value for part in parts]
        rotations = {(len(codec.bands), codec.bands[0].num_scales) for codec in values}
        scale_size = values[0].bands[0].part_size
        can = (
            len(parts) <= MOST_PARTS
            and rotations == {(1, values[0].dim // scale_size)}
            and scale_size & (scale_size - 1) == 0
            and max(keys[0].dim, values[0].dim) <= WIDEST_HEAD
            and all(band.num_scales == 1 for codec in keys for band in codec.bands)
        )
        if not can:
            return None
        return cls(
            tuple(_band_shapes(codec) for codec in keys),
            tuple(codec.num_bytes for codec in keys),
            tuple(codec.bands[0].bits for codec in values),
            tuple(codec.num_bytes for codec in values),
            keys[0].dim,
            parts[0].rotation.cos.shape[-1],
            values[0].dim // scale_size,
            scale_size,
        )

    @property
    def value_dim(self) -> int:
        """Width of a value."""
        return self.num_scales * self.scale_size

    def constants(self) -> dict[str, Constant]:
        """Return the constants of the kernel over the splits by its parameters' names."""
        rest = self.head_dim - 2 * self.half
        return {
            "BANDS": tuple(number for part in self.bands for band in part for number in band),
            "FIRST_BANDS": tuple(itertools.accumulate(map(len, self.bands), initial=0)),
            "KEY_BYTES": self.key_bytes,
            "VALUE_BITS": self.value_bits,
            "VALUE_BYTES": self.value_bytes,
            "HEAD_DIM": self.head_dim,
            "HALF": self.half,
            "HALF_PADDED": padded(self.half),
            "REST": rest,
            "REST_PADDED": padded(rest),
            **self.value_constants(),
        }

    def value_constants(self) -> dict[str, int]:
        """Return those of the kernel that joins the splits."""
        return {
            "NUM_SCALES": self.num_scales,
            "SCALE_SIZE": self.scale_size,
            "VALUE_PADDED": padded(self.value_dim),
        }


def padded(size: int) -> int:
    """Fill a size up to a power of two, and to what a matrix product needs."""
    return max(LEAST_WIDTH, 1 << (size - 1).bit_length() if size else 0)


def _band_shapes(codec: BandCodec) -> tuple[BandShape, ...]:
    shapes: list[BandShape] = []
    element = byte = 0
    for band in codec.bands:
        shapes.append((band.bits, band.size, padded(band.size), element, byte))
        element += band.size
        byte += band.num_bytes
    return tuple(shapes)
