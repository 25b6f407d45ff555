"""Where there is no kernel, torch does the same."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from collections.abc import Iterator

import pytest
import torch

from memdecay.runtime.precision.kernels import dispatch, reference

from .packed import random_parts


@pytest.fixture
def without_packages(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let neither numba nor Triton be installed."""
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    dispatch._find_kernel.cache_clear()
    yield
    dispatch._find_kernel.cache_clear()


@pytest.mark.usefixtures("without_packages")
def test_without_numba_there_is_no_kernel_and_torch_unpacks() -> None:
    parts = random_parts([(4, 20), (2, 10)])
    ours, theirs = (torch.zeros(2, 1, 2, 35, 64) for _ in range(2))

    dispatch.unpack_into(*ours, parts)

    reference.unpack_into(*theirs, parts)
    assert dispatch.find_kernel(torch.device("cpu")) is None
    assert torch.equal(ours, theirs)


def test_numba_is_not_imported_before_a_kernel_is_asked_for() -> None:
    script = "import sys, memdecay.runtime.attach; sys.exit('numba' in sys.modules)"

    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0
