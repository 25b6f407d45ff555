"""How a codec's bytes lie, told to kernels in tables, and the matrices that undo its rotations."""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from memdecay.runtime.precision.bands import BandCodec, scale_of

CODE_OFFSET, NUM_BYTES, SCALE_OFFSET, BITS, FIRST_LANE = range(5)
"""The columns of a table of parts."""


@dataclass(frozen=True, slots=True)
class Packing:
    """A codec as kernels see it.

    A kernel that takes the first code of every byte, then the second, and so on needs no shuffles,
    but gets a part's elements in another order: that of the lanes.

    Attributes:
        parts: What shares a scale, ``(parts, 5)``, int64: the place of its codes and how many
            bytes they are, the place of its scale, its bits and its first lane.
        synthesis: ``(lanes, dim)``, float32: makes vectors out of lanes.
    """

    parts: npt.NDArray[np.int64]
    synthesis: npt.NDArray[np.float32]


@functools.cache
def packing_of(codec: BandCodec) -> Packing:
    """Return a codec's packing, on the CPU."""
    parts: list[tuple[int, ...]] = []
    order: list[int] = []
    offset = 0
    for band in codec.bands:
        num_bytes = band.code_bytes // band.num_scales
        for part in range(band.num_scales):
            lane = len(order)
            scale = offset + band.code_bytes + part
            parts.append((offset + part * num_bytes, num_bytes, scale, band.bits, lane))
            elements = torch.arange(lane, lane + band.part_size).view(num_bytes, -1)
            order += elements.T.flatten().tolist()
        offset += band.num_bytes
    synthesis = codec.synthesis(torch.device("cpu"))[torch.tensor(order)].contiguous()
    return Packing(np.array(parts, dtype=np.int64), synthesis.numpy())


@functools.cache
def scale_table() -> npt.NDArray[np.float32]:
    """Return the scale that each byte stands for, ``(256,)``, float32."""
    table: npt.NDArray[np.float32] = scale_of(torch.arange(256, dtype=torch.uint8)).numpy()
    return table
