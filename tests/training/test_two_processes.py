"""Training in two processes on the CPU, through the command."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from memdecay.classifier.artifact import load_artifact
from memdecay.data.generator import generate_traces
from memdecay.data.jsonl import write_traces
from tests.conftest import REPOSITORY
from tests.tiny import tiny_llama, tiny_tokenizer

# Lightning starts the second process by giving the same command line again, so it has to be a file.
COMMAND = "from memdecay.cli import main\n\nmain()\n"
UNLABELLED_RANK = """
from dataclasses import replace
from pathlib import Path

import numpy as np

from memdecay.classifier.network import NetworkConfig
from memdecay.training.config import DeviceConfig, TrainingConfig
from memdecay.training.datamodule import RegionDataModule
from memdecay.training.module import RegionModule
from memdecay.training.trainer import train
from tests.training.windows import ListSource, learnable_source

windows = learnable_source(6, 12, 8).windows
# One chunk each; the second process validates on the last, which has no label at all.
windows.append(replace(windows[0], labels=np.full(len(windows[0].labels), -1, np.int8)))
config = TrainingConfig(
    max_epochs=2, chunk_tokens=90, device=DeviceConfig("cpu", devices="2", strategy="ddp")
)
module = RegionModule(NetworkConfig(12, 8), config.optimizer, None)
parts = {"train": range(5), "validation": range(5, 7), "test": range(5, 6)}
run = train(module, RegionDataModule(ListSource(windows), parts, config), config, Path("run"))
if run.is_main_process:
    print("epochs", run.num_epochs)
"""


def train(folder: Path, name: str, *options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [
            *(sys.executable, str(folder / "command.py"), "train"),
            *("--traces", str(folder / "labelled.jsonl"), "--model", str(folder / "model")),
            *("--out", str(folder / name), "--max-epochs", "2", "--accelerator", "cpu", *options),
        ],
        env=os.environ
        | {"MEMDECAY_CACHE": str(folder / "cache"), "OMP_NUM_THREADS": "1", "COLUMNS": "160"}
        | {"PYTHONPATH": str(REPOSITORY), "PYTHONWARNINGS": "ignore"},
        capture_output=True,
        text=True,
        check=False,
        timeout=900,
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("two-processes")
    (folder / "command.py").write_text(COMMAND)
    tiny_llama().save_pretrained(folder / "model")
    tiny_tokenizer().save_pretrained(folder / "model")
    short = [trace for trace in generate_traces(60, seed=5) if trace.num_characters < 3000]
    write_traces(short[:8], folder / "labelled.jsonl")
    return folder


@pytest.mark.slow
def test_two_processes_train_what_one_trains(folder: Path) -> None:
    alone = train(folder, "alone", "--devices", "1")
    together = train(folder, "together", "--devices", "2", "--strategy", "ddp")
    assert alone.returncode == 0, alone.stderr
    assert together.returncode == 0, together.stderr
    # Only the main process writes and speaks.
    assert together.stdout.count("Classifier:") == 1
    assert len(list((folder / "together").glob("training/*"))) == 1
    one, two = (load_artifact(folder / name).card for name in ("alone", "together"))
    assert two.trained_on == one.trained_on
    assert two.training == one.training
    assert two.network == one.network
    assert two.feature_layout == one.feature_layout
    for name in ("tokens", "baselines"):
        assert two.metrics[name] == one.metrics[name]
    assert set(two.metrics) == set(one.metrics)
    assert two.metrics["macro_f1"] == pytest.approx(one.metrics["macro_f1"], abs=0.2)


@pytest.mark.slow
def test_process_that_validates_on_nothing_labelled_holds_nobody_up(tmp_path: Path) -> None:
    (tmp_path / "command.py").write_text(UNLABELLED_RANK)
    found = subprocess.run(
        [sys.executable, "command.py"],
        cwd=tmp_path,
        env=os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(REPOSITORY)},
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert found.returncode == 0, found.stderr
    assert "epochs 2" in found.stdout
