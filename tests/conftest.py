"""Fixtures that more than one folder of tests uses."""

from __future__ import annotations

import random
import zlib
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, settings

# The models of the tests are so small that a second thread costs more than it brings.
torch.set_num_threads(1)

# A busy machine must not fail a test, and a test that failed once must fail again.
settings.register_profile(
    "steady", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("steady")

REPOSITORY = Path(__file__).parents[1]


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Give each test, and what it sets up, its own random numbers, whatever ran before it."""
    seed = zlib.crc32(item.nodeid.encode())
    torch.manual_seed(seed)
    np.random.seed(seed)
    random.seed(seed)


@pytest.fixture(scope="session")
def shared_dir() -> Path:
    """Return the folder of real traces beside the repository, or skip."""
    folder = REPOSITORY.parent / "shared"
    if not folder.is_dir():
        pytest.skip("the folder of real traces (../shared) is not here")
    return folder
