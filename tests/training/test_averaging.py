from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.optim.swa_utils import AveragedModel

from memdecay.training.averaging import blended
from memdecay.training.checkpoints import load_checkpoint
from memdecay.training.chunks import Batch
from memdecay.training.config import OptimizerConfig
from memdecay.training.fit import train_network
from memdecay.training.module import RegionModule
from tests.training.test_fit import make_config, make_data


def counted(num_steps: int) -> np.ndarray:
    """Return what each step counts for, by the closed form."""
    steps = np.arange(1, num_steps + 1)
    return steps * (steps + 1) / (steps * (steps + 1)).sum()


@pytest.mark.parametrize("num_steps", [1, 2, 5, 400])
def test_late_steps_count_most(num_steps: int) -> None:
    values = torch.randn(num_steps, 3)
    model = torch.nn.Linear(3, 1, bias=False)
    averaged = AveragedModel(model, avg_fn=blended)

    for value in values:
        with torch.no_grad():
            model.weight.copy_(value)
        averaged.update_parameters(model)

    expected = torch.from_numpy(counted(num_steps)).float() @ values
    torch.testing.assert_close(averaged.module.weight[0], expected, atol=1e-5, rtol=1e-4)


def test_a_trained_network_has_the_mean_of_its_weights(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before: list[Tensor] = []
    original = RegionModule.training_step

    def noting(self: RegionModule, batch: Batch, index: int) -> Tensor:
        before.append(self.network.projection.weight.detach().clone())
        return original(self, batch, index)

    monkeypatch.setattr(RegionModule, "training_step", noting)
    run = train_network(make_data(), make_config(1), tmp_path)

    (last,) = tmp_path.glob("training/*/last.ckpt")
    end = load_checkpoint(last)["current_model_state"]["network.projection.weight"]
    after = torch.stack([*before[1:], end])
    expected = (torch.from_numpy(counted(len(after))).float()[:, None, None] * after).sum(dim=0)
    assert len(after) > 3
    torch.testing.assert_close(run.network.projection.weight, expected, atol=1e-5, rtol=1e-4)
    assert not torch.allclose(expected, end, atol=1e-4)


def test_averaging_can_be_left_out(tmp_path: Path) -> None:
    config = dataclasses.replace(make_config(1), optimizer=OptimizerConfig(average_weights=False))

    run = train_network(make_data(), config, tmp_path)

    (last,) = tmp_path.glob("training/*/last.ckpt")
    checkpoint = load_checkpoint(last)
    assert "current_model_state" not in checkpoint
    torch.testing.assert_close(
        run.network.projection.weight, checkpoint["state_dict"]["network.projection.weight"]
    )
