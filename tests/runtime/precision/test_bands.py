"""Stored vectors come back within what their bits allow."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from memdecay.runtime.precision.bands import Band, BandCodec
from memdecay.runtime.precision.hadamard import hadamard_matrix


def random_vectors(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("size", [1, 8, 16, 48, 64, 80, 128])
def test_hadamard_matrix_undoes_itself(size: int) -> None:
    matrix = hadamard_matrix(size)

    assert torch.equal(matrix, matrix.T)
    torch.testing.assert_close(matrix @ matrix, torch.eye(size), atol=1e-5, rtol=0)


def test_hadamard_matrix_needs_a_size() -> None:
    with pytest.raises(ValueError, match="size must be 1 or more"):
        hadamard_matrix(0)


@pytest.mark.parametrize(("bits", "most"), [(8, 1e-4), (4, 0.02), (2, 0.15)])
def test_error_stays_within_what_the_bits_allow(bits: int, most: float) -> None:
    codec = BandCodec(64, (Band(64, bits, num_scales=2),))
    vectors = random_vectors(500, 64)

    error = (codec.decode(codec.encode(vectors)) - vectors).square().mean()

    assert error < most * vectors.square().mean()


@given(scale=st.floats(1e-4, 500.0), seed=st.integers(0, 50))
def test_error_grows_with_the_vector_and_no_more(scale: float, seed: int) -> None:
    codec = BandCodec(16, (Band(16, 8),))
    vectors = scale * random_vectors(4, 16, seed=seed)

    error = (codec.decode(codec.encode(vectors)) - vectors).abs().amax(dim=-1)

    # A step is a 127th of the largest rotated element, rounded up by at most an eighth octave.
    largest = (vectors @ hadamard_matrix(16)).abs().amax(dim=-1)
    step = largest / 127.5 * 2**0.125
    assert bool((error <= 16**0.5 * step / 2 * 1.01).all())


def test_elements_behind_the_bands_come_back_as_zero() -> None:
    codec = BandCodec(32, (Band(8, 8), Band(8, 4)))
    vectors = random_vectors(3, 32)

    decoded = codec.decode(codec.encode(vectors))

    assert torch.equal(decoded[:, 16:], torch.zeros(3, 16))
    torch.testing.assert_close(decoded[:, :8], vectors[:, :8], atol=0.05, rtol=0)


def test_zero_stays_near_zero() -> None:
    codec = BandCodec(16, (Band(16, 4),))

    assert codec.decode(codec.encode(torch.zeros(2, 16))).abs().max() < 1e-4


def test_bytes_are_those_of_the_stored_tensor() -> None:
    codec = BandCodec(64, (Band(16, 8), Band(32, 4, num_scales=2), Band(16, 2)))

    stored = codec.encode(random_vectors(2, 3, 64))

    assert stored.shape == (2, 3, codec.num_bytes)
    assert codec.num_bytes == 16 + 1 + 16 + 2 + 4 + 1
    assert codec.bits_per_element == 8 * codec.num_bytes / 64


def test_numbers_and_synthesis_make_the_vectors() -> None:
    codec = BandCodec(24, (Band(8, 8), Band(8, 4)))
    stored = codec.encode(random_vectors(5, 24))

    joined = codec.dequantize(stored) @ codec.synthesis(stored.device)

    torch.testing.assert_close(joined, codec.decode(stored))


@pytest.mark.parametrize("bits", [2, 4])
def test_choosing_each_vectors_scale_beats_any_one_share(bits: int) -> None:
    codec = BandCodec(32, (Band(32, bits),))
    vectors = random_vectors(200, 32)
    rotated = vectors @ hadamard_matrix(32)
    largest = rotated.abs().amax(dim=-1, keepdim=True)
    half = 2 ** (bits - 1)

    def error(share: float) -> torch.Tensor:
        step = largest * share / (half - 0.5)
        codes = (rotated / step).floor().clamp(-half, half - 1)
        return ((codes + 0.5) * step - rotated).square().sum(dim=-1)

    found = (codec.decode(codec.encode(vectors)) - vectors).square().sum(dim=-1)

    assert all(found.mean() < error(share).mean() for share in (1.0, 0.9, 0.8, 0.7, 0.6))


def test_senseless_bands_are_refused() -> None:
    with pytest.raises(ValueError, match="positive multiple of 8"):
        Band(12, 4)
    with pytest.raises(ValueError, match="num_scales must divide"):
        Band(16, 4, num_scales=3)
    with pytest.raises(ValueError, match="bits must be one of"):
        Band(16, 3)
    with pytest.raises(ValueError, match="bands must hold 1 to 16"):
        BandCodec(16, (Band(24, 4),))
    with pytest.raises(ValueError, match="bands must hold 1 to 16"):
        BandCodec(16, ())
