"""Which GPUs get the kernel."""

from __future__ import annotations

import pytest
import torch

from memdecay.runtime.precision.kernels.dispatch import find_kernel

pytest.importorskip("triton")

from memdecay.runtime.precision.kernels.cuda.attend import attend_packed


def test_gpus_from_ampere_on_get_the_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _: (8, 0))

    assert find_kernel(torch.device("cuda:70")) is attend_packed


def test_older_gpus_get_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _: (7, 5))

    assert find_kernel(torch.device("cuda:71")) is None
