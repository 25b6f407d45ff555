"""Device functions that turn stored bytes into numbers, in registers."""

from __future__ import annotations

import triton
import triton.language as tl

from memdecay.runtime.precision import bands

SCALE_ZERO = tl.constexpr(bands.SCALE_ZERO)
STEPS_PER_OCTAVE = tl.constexpr(bands.STEPS_PER_OCTAVE)


@triton.jit
def load_numbers(rows, is_row, NUM_BYTES: tl.constexpr, PADDED: tl.constexpr, BITS: tl.constexpr):
    """Load codes and centre them around zero.

    Args:
        rows: Pointers to the first byte of each token's codes, ``(block,)``.
        is_row: Which tokens exist, ``(block,)``; the others come back as the lowest code.
        NUM_BYTES: Bytes of a token's codes; what lies behind them is the lowest code too.
        PADDED: How many numbers come back, a power of two.
        BITS: Bits of a code.

    Returns:
        ``(block, PADDED)``, float32, halves of odd integers.
    """
    offsets = tl.arange(0, PADDED * BITS // 8)
    is_stored = is_row[:, None] & (offsets < NUM_BYTES)[None, :]
    packed = tl.load(rows[:, None] + offsets[None, :], mask=is_stored, other=0)
    # A byte holds neighbouring codes, the first in its lowest bits.
    if BITS == 8:
        codes = packed
    elif BITS == 4:
        codes = tl.interleave(packed & 15, packed >> 4)
    else:
        even = tl.interleave(packed & 3, (packed >> 4) & 3)
        odd = tl.interleave((packed >> 2) & 3, packed >> 6)
        codes = tl.interleave(even, odd)
    return codes.to(tl.float32) - (2 ** (BITS - 1) - 0.5)


@triton.jit
def scale_of(scale_bytes):
    """Return the scales of bytes on the logarithmic axis, float32."""
    return tl.exp2((scale_bytes.to(tl.float32) - SCALE_ZERO) / STEPS_PER_OCTAVE)


@triton.jit
def hadamard_signs(SIZE: tl.constexpr, PADDED: tl.constexpr):
    """Make the Hadamard matrix of a size, times the root of its blocks' width.

    Returns:
        ``(PADDED, PADDED)``, float32: 1 and -1 inside the blocks, 0 elsewhere.
    """
    WIDTH: tl.constexpr = SIZE & -SIZE
    row = tl.arange(0, PADDED)[:, None]
    column = tl.arange(0, PADDED)[None, :]
    # The sign is the parity of the bits that both have.
    parity = row & column & (WIDTH - 1)
    parity ^= parity >> 4
    parity ^= parity >> 2
    parity ^= parity >> 1
    parity &= 1
    is_inside = ((row // WIDTH) == (column // WIDTH)) & (row < SIZE) & (column < SIZE)
    return tl.where(is_inside, 1.0 - 2.0 * parity.to(tl.float32), 0.0)


@triton.jit
def load_band(
    rows, is_token, BANDS: tl.constexpr, BAND: tl.constexpr, DTYPE: tl.constexpr, DOT: tl.constexpr
):
    """Load a band with one scale and undo its rotation.

    Args:
        rows: Pointers to the first byte of each token's key, ``(tokens,)``.
        is_token: Which tokens exist, ``(tokens,)``.
        BANDS: The numbers of a `BandShape` for each band.
        BAND: Which band.
        DTYPE: Type of what is multiplied and of what comes back.
        DOT: How precisely float32 is multiplied.

    Returns:
        ``(tokens, padded size)``; zero behind the band.
    """
    BITS: tl.constexpr = BANDS[5 * BAND]
    SIZE: tl.constexpr = BANDS[5 * BAND + 1]
    PADDED: tl.constexpr = BANDS[5 * BAND + 2]
    NUM_BYTES: tl.constexpr = SIZE * BITS // 8
    WIDTH: tl.constexpr = SIZE & -SIZE
    rows += BANDS[5 * BAND + 4]
    numbers = load_numbers(rows, is_token, NUM_BYTES, PADDED, BITS)
    # Exact even in half precision: small numbers, and signs without the matrix's norm.
    signs = hadamard_signs(SIZE, PADDED)
    straight = tl.dot(numbers.to(DTYPE), signs.to(DTYPE), input_precision=DOT)
    scale = scale_of(tl.load(rows + NUM_BYTES, mask=is_token, other=0)) * WIDTH**-0.5
    return (straight * scale[:, None]).to(DTYPE)


@triton.jit
def load_values(
    rows,
    is_token,
    BITS: tl.constexpr,
    NUM_SCALES: tl.constexpr,
    SCALE_SIZE: tl.constexpr,
    PADDED: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Load values, which stay rotated.

    Args:
        rows: Pointers to each token's first byte, ``(BLOCK,)``.
        is_token: Which tokens exist, ``(BLOCK,)``.
        BITS: Bits of a code.
        NUM_SCALES: Scales of a token.
        SCALE_SIZE: Elements that share one, a power of two.
        PADDED: Elements of a token, filled up to a power of two.
        BLOCK: Tokens.

    Returns:
        ``(BLOCK, PADDED)``, float32; of no meaning behind the elements.
    """
    NUM_BYTES: tl.constexpr = NUM_SCALES * SCALE_SIZE * BITS // 8
    numbers = load_numbers(rows, is_token, NUM_BYTES, PADDED, BITS)
    parts = tl.arange(0, PADDED // SCALE_SIZE)
    is_stored = is_token[:, None] & (parts < NUM_SCALES)[None, :]
    scales = tl.load(rows[:, None] + NUM_BYTES + parts[None, :], mask=is_stored, other=0)
    scaled = tl.reshape(numbers, (BLOCK, PADDED // SCALE_SIZE, SCALE_SIZE))
    return tl.reshape(scaled * scale_of(scales)[:, :, None], (BLOCK, PADDED))
