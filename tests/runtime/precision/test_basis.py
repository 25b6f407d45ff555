"""The basis is that of principal components."""

from __future__ import annotations

import pytest
import torch
from sklearn.decomposition import PCA

from memdecay.runtime.precision.basis import KeyBasis


def uneven_keys(num_tokens: int = 4000) -> torch.Tensor:
    generator = torch.Generator().manual_seed(0)
    spread = torch.tensor([8.0, 4.0, 2.0, 1.0, 0.5, 0.25, 0.1, 0.05])
    turn, _ = torch.linalg.qr(torch.randn(8, 8, generator=generator))
    return 3.0 + (torch.randn(2, num_tokens, 8, generator=generator) * spread) @ turn


def test_directions_are_scikit_learns_principal_components() -> None:
    keys = uneven_keys()

    basis = KeyBasis.fit(keys)

    pca = PCA().fit(keys[0].numpy())
    mean, directions = basis.full()
    similarity = torch.from_numpy(pca.components_).float() @ directions[0]
    torch.testing.assert_close(similarity.abs(), torch.eye(8), atol=0.02, rtol=0)
    torch.testing.assert_close(mean[0, 0], keys[0].mean(dim=0), atol=2e-3, rtol=0)


def test_coordinates_come_back_as_the_keys() -> None:
    keys = uneven_keys(64)
    basis = KeyBasis.fit(keys)

    back = basis.out_of(basis.into(keys), torch.eye(8))

    torch.testing.assert_close(back, keys, atol=0.05, rtol=0)


def test_one_token_is_enough_and_none_is_refused() -> None:
    basis = KeyBasis.fit(torch.ones(2, 1, 8))

    assert basis.directions.isfinite().all()
    with pytest.raises(ValueError, match="at least one token"):
        KeyBasis.fit(torch.ones(2, 0, 8))


def test_bytes_are_two_a_number() -> None:
    basis = KeyBasis.fit(torch.ones(2, 1, 8))

    stored = (basis.mean, basis.directions)
    assert basis.nbytes == sum(each.untyped_storage().nbytes() for each in stored)
    assert basis.nbytes == 2 * sum(each.numel() for each in stored)
    assert KeyBasis.bytes_for(2, 8) == basis.nbytes
