"""Attention over packed tokens in one launch, and one more to join its splits."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass

import torch
import triton.language as tl
from torch import Tensor

from memdecay.runtime.precision.kernels import reference
from memdecay.runtime.precision.kernels.cuda.merge import merge_splits
from memdecay.runtime.precision.kernels.cuda.shapes import LEAST_WIDTH, MOST_PARTS, Shapes, padded
from memdecay.runtime.precision.kernels.cuda.split import attend_splits
from memdecay.runtime.precision.kernels.cuda.splits import MOST_SPLITS, Splits
from memdecay.runtime.precision.kernels.parts import Attended, PackedPart

_MOST_ROWS = 64
_PROGRAMS_PER_PROCESSOR = 2
_PROGRAMS_IN_INTERPRETER = 8

OPTIONS = {"num_warps": 4, "num_stages": 1, "enable_fp_fusion": True}
"""How Triton compiles both kernels. Bytes can't be loaded ahead, so there are no stages."""

_KEPT_HEAD_BYTES = 256
"""Bytes of a row of a head's directions up to which all of them fit shared memory."""

_WIDEST_HEAD_BYTES = 512
_ROOM_FOR_WIDE_HEADS = 160 * 1024
"""Bytes of shared memory that a head above `_KEPT_HEAD_BYTES` needs: an A100's, say."""


@dataclass(frozen=True, slots=True)
class Tuning:
    """How a kernel multiplies.

    Attributes:
        block: Tokens at once.
        dtype: Type of what is multiplied; sums are float32.
        dot: How precisely float32 is multiplied.
        keeps_directions: Whether shared memory has room for a head's directions.
    """

    block: int
    dtype: tl.dtype
    dot: str
    keeps_directions: bool

    @classmethod
    def of(cls, dtype: torch.dtype, head_dim: int) -> Tuning:
        """Return what suits queries of this type and width.

        Half precision holds codes and signs exactly; directions are rounded to it when they are
        fitted.
        """
        is_exact = dtype == torch.float32
        keeps_directions = _head_bytes(dtype, head_dim) <= _KEPT_HEAD_BYTES
        return cls(
            block=64 if keeps_directions and not is_exact else 32,
            dtype=tl.float32 if is_exact else tl.float16,
            dot="tf32x3" if is_exact else "tf32",
            keeps_directions=keeps_directions,
        )

    def constants(self) -> dict[str, object]:
        """Return the kernel's constants by its parameters' names."""
        return {
            "BLOCK": self.block,
            "DTYPE": self.dtype,
            "DOT": self.dot,
            "KEEPS_DIRECTIONS": self.keeps_directions,
        }


def attend_packed(
    query: Tensor, parts: Sequence[PackedPart], scale: float, bias: Tensor | None = None
) -> Attended:
    """Attend to packed tokens, which every query may see unless the bias hides them.

    Keys and values are unpacked in registers. Queries of 16 bits are multiplied in half precision,
    those of float32 as precisely as tensor cores can; sums are float32. Heads that the kernels
    can't do, see `Shapes.of`, or for which the device has too little shared memory, are unpacked
    and attended to in plain torch.

    Args:
        query: Turned by its position, ``(batch, num_attention_heads, q, head_dim)``, float.
        parts: The packed tokens, at least one part, in the order of the bias.
        scale: Factor on the logits.
        bias: Added to the logits, ``(batch, n)`` for all n tokens of the parts, float32; minus
            infinity hides a token. None hides none.
    """
    shapes = Shapes.of(parts)
    if shapes is None or not _has_room(query.device, _head_bytes(query.dtype, shapes.head_dim)):
        return reference.attend_packed(query, parts, scale, bias)
    with torch.cuda.device(query.device) if query.is_cuda else nullcontext():
        return _attend(query, parts, scale, bias, shapes)


def _attend(
    query: Tensor,
    parts: Sequence[PackedPart],
    scale: float,
    bias: Tensor | None,
    shapes: Shapes,
) -> Attended:
    query = query if query.stride(3) == 1 else query.contiguous()
    bias = bias if bias is None or bias.stride(1) == 1 else bias.contiguous()
    batch_size, num_heads, num_queries, _ = query.shape
    num_key_heads = parts[0].pool.keys.shape[1]
    num_rows = num_heads // num_key_heads * num_queries
    rows = min(_MOST_ROWS, padded(num_rows))
    grid = batch_size * num_key_heads, math.ceil(num_rows / rows)
    tuning = Tuning.of(query.dtype, shapes.head_dim)
    wanted = _num_programs(query.device) // math.prod(grid)
    splits = Splits.share([part.num_tokens for part in parts], tuning.block, wanted)

    tensors = tuple(_tensors(part, batch_size) for part in parts)
    sums = _empty(query, grid[0], splits.num_splits, num_rows)
    outputs = _empty(query, *sums.shape, shapes.value_dim)
    attend_splits[(splits.num_splits, *grid)](
        query,
        tensors,
        bias,
        outputs,
        sums,
        scale,
        *query.stride()[:3],
        0 if bias is None else bias.stride(0),
        num_key_heads,
        num_rows,
        num_queries,
        splits.num_splits,
        splits.run,
        *_filled(part.num_tokens for part in parts),
        *_filled(splits.ends),
        *_filled(part[-1].stride(0) for part in tensors),
        **shapes.constants(),
        **tuning.constants(),
        ROWS=rows,
        **OPTIONS,
    )
    lse = _empty(query, batch_size, num_heads, num_queries)
    merged = _empty(query, *lse.shape, shapes.value_dim)
    merge_splits[(grid[0], num_rows)](
        outputs,
        sums,
        merged,
        lse,
        num_rows,
        splits.num_splits,
        **shapes.value_constants(),
        MOST_SPLITS=MOST_SPLITS,
        BLOCK=LEAST_WIDTH,
        **OPTIONS,
    )
    return Attended(merged, lse)


def _tensors(part: PackedPart, batch_size: int) -> tuple[Tensor, ...]:
    """Return what the kernel reads of a part: all but the angles' first axis is dense."""
    mean, directions = part.basis.full()
    return (
        part.pool.keys.contiguous(),
        part.pool.values.contiguous(),
        mean.contiguous(),
        directions.contiguous(),
        _angles(part.rotation.cos, batch_size),
        _angles(part.rotation.sin, batch_size),
    )


def _angles(angles: Tensor, batch_size: int) -> Tensor:
    angles = angles.expand(batch_size, -1, -1, -1)
    return angles if angles[0].is_contiguous() else angles.contiguous()


def _filled(numbers: Iterable[int]) -> tuple[int, ...]:
    """Fill numbers of the parts up to as many as the kernel takes."""
    own = tuple(numbers)
    return own + (0,) * (MOST_PARTS - len(own))


def _empty(like: Tensor, *shape: int) -> Tensor:
    return like.new_empty(shape, dtype=torch.float32)


def _head_bytes(dtype: torch.dtype, head_dim: int) -> int:
    return dtype.itemsize * head_dim


@functools.cache
def _has_room(device: torch.device, head_bytes: int) -> bool:
    if head_bytes <= _KEPT_HEAD_BYTES or device.type != "cuda":
        return True
    # Torch's type hints lack it.
    room = getattr(torch.cuda.get_device_properties(device), "shared_memory_per_block_optin", 0)
    return head_bytes <= _WIDEST_HEAD_BYTES and int(room) >= _ROOM_FOR_WIDE_HEADS


@functools.cache
def _num_programs(device: torch.device) -> int:
    """Return how many programs keep a device busy."""
    if device.type != "cuda":
        return _PROGRAMS_IN_INTERPRETER
    processors = torch.cuda.get_device_properties(device).multi_processor_count
    return _PROGRAMS_PER_PROCESSOR * processors
