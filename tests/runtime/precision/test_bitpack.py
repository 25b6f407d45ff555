"""Packing loses nothing and takes the bytes it says."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from memdecay.runtime.precision.bitpack import PACKED_BITS, pack, packed_bytes, unpack


@given(bits=st.sampled_from(PACKED_BITS), eighths=st.integers(1, 12), seed=st.integers(0, 999))
def test_unpacking_gives_the_codes_back(bits: int, eighths: int, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    codes = torch.randint(0, 2**bits, (3, 2, 8 * eighths), generator=generator, dtype=torch.uint8)

    packed = pack(codes, bits)

    assert packed.dtype == torch.uint8
    assert packed.shape == (3, 2, packed_bytes(8 * eighths, bits))
    assert torch.equal(unpack(packed, bits), codes.float())
    assert torch.equal(unpack(packed, bits, centre=1.5), codes - 1.5)


def test_first_codes_take_the_lowest_bits() -> None:
    codes = torch.tensor([1, 2, 3, 0, 3, 0, 0, 0], dtype=torch.uint8)

    assert pack(codes, 2).tolist() == [0b00111001, 0b00000011]


def test_other_widths_and_broken_bytes_are_refused() -> None:
    with pytest.raises(ValueError, match="bits must be one of"):
        packed_bytes(8, 3)
    with pytest.raises(ValueError, match="bits must be one of"):
        unpack(torch.zeros(1, dtype=torch.uint8), 5)
    with pytest.raises(ValueError, match="do not fill whole bytes"):
        pack(torch.zeros(3, dtype=torch.uint8), 2)
