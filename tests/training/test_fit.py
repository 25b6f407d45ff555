import dataclasses
import resource
import shutil
import signal
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from memdecay.classifier.artifact import load_artifact
from memdecay.classifier.errors import ArtifactError, ConfigError, StorageError
from memdecay.classifier.features import NUM_POSITION_FEATURES, FeatureLayout
from memdecay.training.baselines import POSITION
from memdecay.training.chunks import Batch
from memdecay.training.config import (
    ClassWeighting,
    DeviceConfig,
    NetworkSizes,
    OptimizerConfig,
    TrainingConfig,
)
from memdecay.training.datamodule import RegionDataModule
from memdecay.training.fit import (
    FitResult,
    TrainingData,
    class_weights,
    fit,
    run_fingerprint,
    train_network,
)
from memdecay.training.module import RegionModule
from memdecay.training.trainer import TrainingRun, check_devices
from tests.training.windows import ListSource, learnable_source

HIDDEN_SIZE = 12


def make_data(seed: int = 0) -> TrainingData:
    return TrainingData(
        source=learnable_source(20, HIDDEN_SIZE, NUM_POSITION_FEATURES, seed),
        windows={"train": range(14), "validation": range(14, 17), "test": range(17, 20)},
        feature_layout=FeatureLayout(layer=1, hidden_size=HIDDEN_SIZE),
        llm_name="tiny",
        llm_fingerprint="abc",
        trained_on=("digest-1",),
        facts={"train_traces": 14},
    )


def make_config(max_epochs: int = 12, seed: int = 0) -> TrainingConfig:
    return TrainingConfig(
        max_epochs=max_epochs,
        batch_chunks=8,
        chunk_tokens=16,
        seed=seed,
        # Here the hidden states alone say anything.
        network=NetworkSizes(
            projection_size=8, mlp_size=16, context_tokens=2, hidden_dropout=0.0, rules_weight=0.0
        ),
        optimizer=OptimizerConfig(learning_rate=2e-2),
    )


def run_fit(folder: Path, config: TrainingConfig) -> FitResult:
    result = fit(make_data(), config, folder)
    assert result is not None
    return result


@pytest.fixture(scope="module")
def fitted(tmp_path_factory: pytest.TempPathFactory) -> FitResult:
    return run_fit(tmp_path_factory.mktemp("fit") / "classifier", make_config())


def test_what_can_be_learned_is_learned(fitted: FitResult) -> None:
    assert fitted.metrics.macro_f1 > 0.9


def test_exported_folder_loads_and_carries_the_figures(fitted: FitResult) -> None:
    artifact = load_artifact(fitted.folder)
    assert artifact.card.metrics["macro_f1"] == pytest.approx(fitted.metrics.macro_f1)
    assert artifact.card.temperature == pytest.approx(fitted.temperature)
    assert artifact.card.trained_on == ("digest-1",)
    assert artifact.card.training["train_traces"] == 14


def test_export_agrees_with_torch_and_saw_empty_and_single_token_inputs(fitted: FitResult) -> None:
    assert fitted.parity.is_equal
    assert fitted.parity.num_tokens > 1 + 3 * 33


def test_baselines_are_measured_on_the_same_tokens(fitted: FitResult) -> None:
    position = fitted.baselines[POSITION]
    assert position.tokens == fitted.metrics.tokens
    # The windows' position features are noise.
    assert position.macro_f1 < fitted.metrics.macro_f1
    card = load_artifact(fitted.folder).card
    assert card.metrics["baselines"][POSITION]["macro_f1"] == pytest.approx(position.macro_f1)


def test_a_given_temperature_is_taken_and_the_network_not_trained_again(
    fitted: FitResult, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = Path(shutil.copytree(fitted.folder, tmp_path / "copy"))
    monkeypatch.delattr(RegionDataModule, "train_dataloader")
    again = run_fit(folder, dataclasses.replace(make_config(), temperature=2.5))
    assert again.temperature == 2.5
    assert load_artifact(folder).card.temperature == 2.5
    assert again.metrics.accuracy == fitted.metrics.accuracy
    assert again.metrics.ece != pytest.approx(fitted.metrics.ece)


def test_progress_counts_the_steps_of_all_epochs(tmp_path: Path) -> None:
    reports: list[tuple[int, int]] = []
    train_network(
        make_data(),
        make_config(2),
        tmp_path,
        progress=lambda done, total: reports.append((done, total)),
    )
    total = reports[0][1]
    assert reports == [(step, total) for step in range(1, total + 1)]


@pytest.mark.parametrize("world_size", [1, 2, 3])
def test_processes_share_the_training_chunks(world_size: int) -> None:
    data, config = make_data(), make_config()
    seen: list[int] = []
    for rank in range(world_size):
        datamodule = RegionDataModule(data.source, data.windows, config)
        datamodule.trainer = SimpleNamespace(world_size=world_size, global_rank=rank)
        sampler = datamodule.train_dataloader().sampler
        seen += sampler
    num_chunks = len(datamodule.train_dataloader().dataset)  # type: ignore[arg-type]
    assert set(seen) == set(range(num_chunks))
    # What does not divide evenly is filled up, so that no process waits for another.
    assert num_chunks <= len(seen) < num_chunks + world_size


def test_losses_are_logged_for_every_epoch(fitted: FitResult) -> None:
    (log,) = fitted.folder.glob("training/*/metrics.csv")
    header, *rows = log.read_text().splitlines()
    assert {"train_loss", "val_loss", "val_f1"} <= set(header.split(","))
    assert len(rows) >= fitted.num_epochs


def assert_same_weights(first: TrainingRun, second: TrainingRun) -> None:
    other = second.network.state_dict()
    for name, value in first.network.state_dict().items():
        torch.testing.assert_close(value, other[name], rtol=0, atol=0)


def test_same_seed_gives_the_same_weights(tmp_path: Path) -> None:
    runs = [train_network(make_data(), make_config(3), tmp_path / name) for name in ("a", "b")]
    assert_same_weights(*runs)


def test_killed_run_goes_on_and_ends_with_the_same_weights(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    unbroken = train_network(make_data(), make_config(5), tmp_path / "unbroken")
    original = RegionModule.training_step
    steps: list[int] = []

    def killed_in_third_epoch(self: RegionModule, batch: Batch, index: int) -> torch.Tensor:
        steps.append(self.trainer.current_epoch)
        if steps.count(2) == 2:
            raise MemoryError("killed")
        return original(self, batch, index)

    monkeypatch.setattr(RegionModule, "training_step", killed_in_third_epoch)
    with pytest.raises(MemoryError, match="killed"):
        train_network(make_data(), make_config(5), tmp_path / "killed")
    monkeypatch.setattr(RegionModule, "training_step", original)
    resumed = train_network(make_data(), make_config(5), tmp_path / "killed")
    assert resumed.num_epochs == 5
    assert_same_weights(unbroken, resumed)


def test_finished_run_is_not_trained_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = train_network(make_data(), make_config(2), tmp_path)

    def refuse(_: RegionDataModule) -> object:
        raise AssertionError("trained again")

    monkeypatch.setattr(RegionDataModule, "train_dataloader", refuse)
    again = train_network(make_data(), make_config(2), tmp_path)
    assert again.num_epochs == first.num_epochs == 2
    assert_same_weights(first, again)


def test_other_settings_are_another_run() -> None:
    data = make_data()
    assert run_fingerprint(data, make_config()) == run_fingerprint(data, make_config())
    assert run_fingerprint(data, make_config()) != run_fingerprint(data, make_config(seed=1))


def test_corrected_labels_are_trained_on_in_a_folder_that_had_the_old_ones(
    tmp_path: Path,
) -> None:
    data = make_data()
    windows = [data.source.window(index) for index in range(len(data.source))]
    corrected = [
        dataclasses.replace(window, labels=np.where(window.labels == 1, 3, window.labels))
        for window in windows
    ]
    changed = dataclasses.replace(data, source=ListSource(corrected), stores=("corrected",))
    train_network(data, make_config(2), tmp_path / "own")
    again = train_network(changed, make_config(2), tmp_path / "own")
    assert_same_weights(again, train_network(changed, make_config(2), tmp_path / "fresh"))


def test_full_disk_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_space(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("memdecay.classifier.artifact.save", no_space)
    with pytest.raises(StorageError, match=f"{tmp_path} could not be written .No space"):
        run_fit(tmp_path, make_config(max_epochs=1))
    assert not (tmp_path / "card.json").exists()
    assert not list(tmp_path.glob(".*"))


@pytest.mark.parametrize("weighting", [ClassWeighting.SQRT, ClassWeighting.BALANCED])
def test_class_weights_favour_rare_regions_and_average_to_one(
    weighting: ClassWeighting,
) -> None:
    counts = torch.tensor([1000, 10, 100, 0, 500])
    weights = class_weights(counts, weighting)
    assert weights is not None
    assert weights[1] > weights[2] > weights[4] > weights[0]
    assert weights[3] == 0
    assert (weights * counts).sum() / counts.sum() == pytest.approx(1.0)


def test_no_weighting_gives_no_weights() -> None:
    assert class_weights(torch.ones(5, dtype=torch.int64), ClassWeighting.NONE) is None


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("learning_rate", 0.0, "learning_rate"),
        ("weight_decay", -1.0, "weight_decay"),
        ("label_smoothing", 1.0, "label_smoothing"),
    ],
)
def test_bad_optimizer_settings_are_refused(field: str, value: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        OptimizerConfig(**{field: value})  # type: ignore[arg-type]


@pytest.mark.parametrize("temperature", [0.0, -1.0, float("inf"), float("nan")])
def test_a_bad_temperature_is_refused(temperature: float) -> None:
    with pytest.raises(ValueError, match="temperature must be a number above 0"):
        TrainingConfig(temperature=temperature)


@pytest.mark.parametrize(
    "field", ["max_epochs", "patience", "epoch_tokens", "batch_chunks", "chunk_tokens"]
)
def test_bad_counts_are_refused(field: str) -> None:
    with pytest.raises(ValueError, match=field):
        TrainingConfig(**{field: 0})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "content"),
    [("best.ckpt", None), ("best.ckpt", b""), ("best.ckpt", b"junk"), ("finished", b"junk")],
)
def test_damaged_run_is_named(
    name: str, content: bytes | None, fitted: FitResult, tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(fitted.folder, tmp_path / "copy"))
    (path,) = folder.glob(f"training/*/{name}")
    if content is not None:
        path.write_bytes(content)
    else:
        path.unlink()
    with pytest.raises(ArtifactError, match=f"{name}, which an earlier run wrote, is missing or"):
        run_fit(folder, make_config())


@pytest.mark.parametrize("content", [b"", b"junk", b"PK\x03\x04 cut off"])
def test_damaged_checkpoint_to_go_on_from_is_named(
    content: bytes, fitted: FitResult, tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(fitted.folder, tmp_path / "copy"))
    (run_folder,) = folder.glob("training/*")
    (run_folder / "finished").unlink()
    (run_folder / "last.ckpt").write_bytes(content)
    with pytest.raises(ArtifactError, match=r"last\.ckpt, which an earlier run wrote"):
        run_fit(folder, make_config())


def test_full_disk_leaves_no_half_of_a_checkpoint(tmp_path: Path) -> None:
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (3_000, limits[1]))
    try:
        with pytest.raises(StorageError, match=r"\.ckpt could not be written"):
            run_fit(tmp_path / "classifier", make_config(max_epochs=1))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == ["metrics.csv"]


def test_interrupted_training_raises_and_can_be_interrupted_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: object) -> None:
        signal.raise_signal(signal.SIGINT)

    # A shell's background jobs ignore the signal, and so would the tests that one of them runs.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with monkeypatch.context() as patch:
            patch.setattr(RegionModule, "on_train_epoch_end", interrupt)
            with pytest.raises(KeyboardInterrupt):
                run_fit(tmp_path / "classifier", make_config(max_epochs=3))
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, before)
    assert run_fit(tmp_path / "classifier", make_config(max_epochs=3)).num_epochs == 3


@pytest.mark.parametrize(
    ("precision", "dtype"),
    [
        ("32-true", torch.float32),
        ("bf16-mixed", torch.bfloat16),
        ("bf16-true", torch.bfloat16),
        ("64-true", torch.float64),
    ],
)
def test_precision_reaches_lightning_and_the_export_is_in_single(
    precision: str, dtype: torch.dtype, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: set[torch.dtype] = set()
    original = RegionModule._logits

    def noted(self: RegionModule, batch: Batch) -> torch.Tensor:
        logits = original(self, batch)
        is_mixed = torch.is_autocast_enabled("cpu")
        seen.add(torch.get_autocast_dtype("cpu") if is_mixed else logits.dtype)
        return logits

    monkeypatch.setattr(RegionModule, "_logits", noted)
    device = DeviceConfig("cpu", devices="1", precision=precision)
    result = run_fit(tmp_path, dataclasses.replace(make_config(8), device=device))
    assert seen == {dtype}
    assert result.parity.is_equal
    assert result.metrics.macro_f1 > 0.7


def test_devices_that_lightning_refuses_are_named() -> None:
    with pytest.raises(ConfigError, match="accelerator 'cpu', devices '0'"):
        check_devices(DeviceConfig(accelerator="cpu", devices="0"))
