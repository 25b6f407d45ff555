"""Packed tokens for the kernels' tests."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from memdecay.runtime.precision.basis import KeyBasis
from memdecay.runtime.precision.kernels.parts import PackedPart
from memdecay.runtime.precision.pool import Pool
from memdecay.runtime.precision.rotary import RotaryFrequencies
from memdecay.runtime.precision.tiers import make_tier


def random_parts(
    counts: Sequence[tuple[int, int]],
    *,
    batch_size: int = 1,
    num_key_heads: int = 2,
    key_dim: int = 64,
    value_dim: int | None = None,
    rotary_dim: int | None = None,
    seed: int = 0,
) -> list[PackedPart]:
    """Return a part of random tokens for each step's bits and number of tokens."""
    generator = torch.Generator().manual_seed(seed)
    value_dim = value_dim or key_dim
    half = (key_dim if rotary_dim is None else rotary_dim) // 2
    frequencies = RotaryFrequencies(100.0 ** (-torch.arange(half) / max(half, 1)))
    spread = torch.linspace(3.0, 0.1, key_dim)
    sample = torch.randn(num_key_heads, 200, key_dim, generator=generator) * spread
    basis = KeyBasis.fit(sample + torch.randn(num_key_heads, 1, key_dim, generator=generator))
    parts = []
    for bits, num_tokens in counts:
        shape = (batch_size, num_key_heads, num_tokens)
        positions = torch.randint(0, 3000, (batch_size, num_tokens), generator=generator)
        rotation = frequencies.rotation(positions)
        keys = rotation.turn(torch.randn(*shape, key_dim, generator=generator) * spread)
        values = torch.randn(*shape, value_dim, generator=generator)
        tier = make_tier(bits, key_dim, value_dim)
        pool = Pool.encode(keys, values, tier, basis, rotation)
        parts.append(PackedPart(pool, tier, basis, rotation))
    return parts


def random_query(parts: Sequence[PackedPart], group: int, num_queries: int = 1) -> torch.Tensor:
    """Return queries for heads of which ``group`` share a key head."""
    batch_size, num_key_heads = parts[0].pool.keys.shape[:2]
    key_dim = parts[0].tier.key.dim
    generator = torch.Generator().manual_seed(9)
    shape = (batch_size, num_key_heads * group, num_queries, key_dim)
    return torch.randn(shape, generator=generator)
