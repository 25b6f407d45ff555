"""Fixtures that more than one folder of tests uses."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

# The models of the tests are so small that a second thread costs more than it brings.
torch.set_num_threads(1)

REPOSITORY = Path(__file__).parents[1]


@pytest.fixture(scope="session")
def shared_dir() -> Path:
    """Return the folder of real traces beside the repository, or skip."""
    folder = REPOSITORY.parent / "shared"
    if not folder.is_dir():
        pytest.skip("the folder of real traces (../shared) is not here")
    return folder
