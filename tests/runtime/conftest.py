"""Settings for the tests that run tiny models."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from memdecay.classifier.artifact import ClassifierArtifact
from tests.runtime.artifacts import random_artifact


@pytest.fixture(autouse=True, scope="session")
def _one_thread() -> Iterator[None]:
    """Run on one thread: tiny tensors lose time to threads that wait for each other."""
    num_threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(num_threads)


@pytest.fixture(scope="session")
def artifact(tmp_path_factory: pytest.TempPathFactory) -> ClassifierArtifact:
    """Return a classifier folder with random weights for the tiny models (exported once)."""
    return random_artifact(tmp_path_factory.mktemp("runtime") / "classifier")
