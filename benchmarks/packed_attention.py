"""Compare a kernel over packed tokens with unpacking them, in result and in speed.

One layer's decode step over tokens of which half stand at the 4-bit step and half at the 2-bit one,
by default in the shape of an 8B Llama. Three ways: the device's kernel, unpacking and torch's own
attention, and torch's own attention over the same tokens at full precision.

    python benchmarks/packed_attention.py --device cuda --dtype bfloat16

Exit code 1: the kernel's result is not that of plain torch, or the device has no kernel.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from memdecay.runtime.bench.speed.timing import device_clock
from memdecay.runtime.precision.basis import KeyBasis
from memdecay.runtime.precision.kernels import reference
from memdecay.runtime.precision.kernels.dispatch import AttendPacked, find_kernel
from memdecay.runtime.precision.kernels.parts import PackedPart
from memdecay.runtime.precision.pool import Pool
from memdecay.runtime.precision.rotary import RotaryFrequencies
from memdecay.runtime.precision.tiers import make_tier

STEPS = (2, 4)
TOLERANCE = {torch.float32: 1e-4, torch.bfloat16: 5e-3, torch.float16: 5e-3}
"""What the largest difference may be, over the largest element."""


@dataclass(frozen=True, slots=True)
class Shape:
    """What one layer attends with.

    Attributes:
        heads: Attention heads.
        key_heads: Key heads.
        head_dim: Width of both.
        batch: Rows.
    """

    heads: int
    key_heads: int
    head_dim: int
    batch: int


def main() -> int:
    """Print a line for each number of tokens; return 1 if a result differs."""
    options = parse_options()
    device, dtype = torch.device(options.device), getattr(torch, options.dtype)
    kernel = find_kernel(device)
    if kernel is None:
        print(f"there is no kernel for packed tokens on {device}", file=sys.stderr)
        return 1
    shape = Shape(options.heads, options.key_heads, options.head_dim, options.batch)
    print(f"{shape}, {dtype}, {device}; median of {options.repeats}, microseconds a layer")
    print(f"{'tokens':>8} {'kernel':>9} {'unpacking':>9} {'full':>9} {'difference':>10}")
    is_right = True
    for num_tokens in options.tokens:
        query, parts = make_case(shape, num_tokens, dtype, device)
        difference = relative_difference(kernel, query, parts)
        is_right &= difference <= TOLERANCE[dtype]
        times = measure(kernel, query, parts, options.repeats)
        columns = " ".join(f"{1e6 * seconds:9.0f}" for seconds in times)
        print(f"{num_tokens:8} {columns} {difference:10.2g}", flush=True)
    if not is_right:
        print("the kernel's result is not that of plain torch", file=sys.stderr)
    return 0 if is_right else 1


def make_case(
    shape: Shape, num_tokens: int, dtype: torch.dtype, device: torch.device
) -> tuple[Tensor, list[PackedPart]]:
    """Return one query a head and random tokens, half of them at each step."""
    torch.manual_seed(0)
    half = shape.head_dim // 2
    frequencies = RotaryFrequencies(10_000.0 ** (-torch.arange(half, device=device) / half))
    spread = torch.linspace(3.0, 0.1, shape.head_dim, device=device)
    basis = KeyBasis.fit(torch.randn(shape.key_heads, 512, shape.head_dim, device=device) * spread)
    parts = []
    for bits, count in zip(STEPS, (num_tokens // 2, num_tokens - num_tokens // 2), strict=True):
        states = (shape.batch, shape.key_heads, count, shape.head_dim)
        positions = torch.randint(32_000, (shape.batch, count), device=device)
        rotation = frequencies.rotation(positions)
        keys = rotation.turn(torch.randn(states, device=device) * spread)
        tier = make_tier(bits, shape.head_dim, shape.head_dim)
        pool = Pool.encode(keys, torch.randn(states, device=device), tier, basis, rotation)
        parts.append(PackedPart(pool, tier, basis, rotation))
    query = torch.randn(shape.batch, shape.heads, 1, shape.head_dim, device=device)
    return query.to(dtype), parts


def relative_difference(kernel: AttendPacked, query: Tensor, parts: list[PackedPart]) -> float:
    """Return the largest difference to plain torch over the largest element."""
    scale = query.shape[3] ** -0.5
    ours, theirs = kernel(query, parts, scale), reference.attend_packed(query, parts, scale)
    differences = (ours.output - theirs.output, ours.lse - theirs.lse)
    largest = (theirs.output.abs().max(), theirs.lse.abs().max())
    return max(
        float(one.abs().max() / other) for one, other in zip(differences, largest, strict=True)
    )


def measure(
    kernel: AttendPacked, query: Tensor, parts: list[PackedPart], repeats: int
) -> list[float]:
    """Return the median seconds of the kernel, of unpacking and of full precision."""
    scale = query.shape[3] ** -0.5
    keys, values = unpacked(parts, query.dtype)

    def by_unpacking() -> Tensor:
        return scaled_dot_product_attention(
            query, *unpacked(parts, query.dtype), scale=scale, enable_gqa=True
        )

    def at_full_precision() -> Tensor:
        return scaled_dot_product_attention(query, keys, values, scale=scale, enable_gqa=True)

    ways: list[Callable[[], object]] = [
        lambda: kernel(query, parts, scale),
        by_unpacking,
        at_full_precision,
    ]
    now = device_clock(query.device)
    seconds: list[list[float]] = [[] for _ in ways]
    for turn in range(repeats + 3):
        # Interleaved, so that whatever slows the device down meets all alike.
        for way, own in zip(ways, seconds, strict=True):
            start = now()
            way()
            if turn >= 3:
                own.append(now() - start)
    return [statistics.median(own) for own in seconds]


def unpacked(parts: list[PackedPart], dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Return keys and values of all tokens in a dtype."""
    decoded = [part.decode() for part in parts]
    keys, values = (torch.cat(states, dim=2).to(dtype) for states in zip(*decoded, strict=True))
    return keys, values


def parse_options() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--dtype", default="bfloat16", choices=("bfloat16", "float16", "float32"))
    parser.add_argument("--tokens", type=int, nargs="+", default=[1024, 4096, 8192, 16384])
    parser.add_argument("--heads", type=int, default=32)
    parser.add_argument("--key-heads", type=int, default=8)
    parser.add_argument("--head-dim", type=int, default=128)
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--repeats", type=int, default=50)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
