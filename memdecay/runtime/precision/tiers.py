"""The steps of precision that a token fades through."""

from __future__ import annotations

from dataclasses import dataclass

from memdecay.runtime.precision.bands import Band, BandCodec


@dataclass(frozen=True, slots=True)
class Tier:
    """One step of precision: how a head's key and value of one token are stored.

    Attributes:
        bits: The step's name and about the bits of an element.
        key: Stores keys, in their layer's basis.
        value: Stores values.
        noise: About the mean squared error of what comes back, relative to the variance of what
            went in. It weighs the steps against each other; forgetting a token has 1.
    """

    bits: int
    key: BandCodec
    value: BandCodec
    noise: float

    @property
    def num_bytes(self) -> int:
        """Bytes of one token in one head."""
        return self.key.num_bytes + self.value.num_bytes


TIER_BITS = (8, 4, 2)
"""The steps below full precision, finest first."""

# Mean squared error over variance, keys and values together, on SmolLM2.
_NOISE = {8: 3e-5, 4: 0.004, 2: 0.1}


def make_tier(bits: int, key_dim: int, value_dim: int) -> Tier:
    """Return a step for heads of these widths.

    Keys have directions that carry much and others that carry little, and get their bits by that;
    values are about alike in all directions.

    Raises:
        ValueError: The bits are none of `TIER_BITS`, or a width is no multiple of 8.
    """
    if bits not in TIER_BITS:
        raise ValueError(f"bits must be one of {TIER_BITS}, got {bits}")
    for name, dim in (("key_dim", key_dim), ("value_dim", value_dim)):
        if dim < 8 or dim % 8:
            raise ValueError(f"{name} must be a multiple of 8 to be quantized, got {dim}")
    return Tier(
        bits,
        BandCodec(key_dim, _key_bands(bits, key_dim)),
        BandCodec(value_dim, _value_bands(bits, value_dim)),
        _NOISE[bits],
    )


def _key_bands(bits: int, dim: int) -> tuple[Band, ...]:
    if bits == 8 or dim % 64:
        return (Band(dim, bits),)
    if bits == 4:
        return (Band(dim // 4, 8), Band(dim // 2, 4), Band(dim // 4, 2))
    # Half of the directions are not stored: they come back as the mean.
    return (Band(dim // 2, 4),)


def _value_bands(bits: int, dim: int) -> tuple[Band, ...]:
    # Two scales for 64 elements gain more than they cost.
    return (Band(dim, bits, num_scales=dim // 32 if dim % 32 == 0 else 1),)
