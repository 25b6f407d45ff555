"""The Lightning run: checkpoints, early stopping, logs, and going on after a kill."""

from __future__ import annotations

import logging
import signal
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import lightning
import torch
from lightning.pytorch.callbacks import EarlyStopping, ModelCheckpoint
from lightning.pytorch.loggers import CSVLogger
from lightning.pytorch.utilities.exceptions import MisconfigurationException

from memdecay.classifier.errors import ConfigError
from memdecay.classifier.network import RegionNetwork
from memdecay.classifier.storage import storage_errors, write_text_atomically
from memdecay.data.extraction import Progress
from memdecay.training.checkpoints import AtomicCheckpoints, load_checkpoint, read_num_epochs
from memdecay.training.config import DeviceConfig, TrainingConfig
from memdecay.training.datamodule import RegionDataModule
from memdecay.training.module import RegionModule

LAST_CHECKPOINT = "last.ckpt"
BEST_CHECKPOINT = "best.ckpt"
_FINISHED_FILE = "finished"
_LIGHTNING_LOGGERS = ("lightning.pytorch", "lightning.fabric")


@dataclass(frozen=True, slots=True)
class TrainingRun:
    """A finished run.

    Attributes:
        network: The network with the weights of the best epoch, float32, in eval mode on the CPU.
        num_epochs: Epochs trained in all.
        is_main_process: False in the helper processes of a multi-process strategy.
    """

    network: RegionNetwork
    num_epochs: int
    is_main_process: bool


class _StepSeed(lightning.Callback):  # type: ignore[misc]
    """Seeds dropout by the step, so that a resumed run draws what an unbroken one would.

    By the step and not by the epoch: loaders draw from the same generator as they start, and they
    start at another moment in a resumed run.
    """

    def __init__(self, seed: int) -> None:
        self._seed = seed

    def on_train_batch_start(self, trainer: Any, *_: Any) -> None:
        torch.manual_seed(self._seed * 1_000_003 + trainer.global_step)


class _Reporter(lightning.Callback):  # type: ignore[misc]
    """Tells how many steps are done; early stopping may end before all are."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress

    def on_train_batch_end(self, trainer: Any, *_: Any) -> None:
        if trainer.is_global_zero:
            self._progress(trainer.global_step, int(trainer.estimated_stepping_batches))


def train(
    module: RegionModule,
    datamodule: RegionDataModule,
    config: TrainingConfig,
    folder: Path,
    *,
    progress: Progress | None = None,
) -> TrainingRun:
    """Train a module, or go on with the run that lies in the folder.

    Args:
        module: The module with fresh weights.
        datamodule: Its data.
        config: Settings.
        folder: Where checkpoints and ``metrics.csv`` lie; one folder a run.
        progress: Called with steps done and steps at most.

    Raises:
        StorageError: A checkpoint or log could not be written.
        ArtifactError: A checkpoint of an earlier run is damaged.
        ConfigError: Lightning refuses the accelerator, devices, strategy or precision.
        KeyboardInterrupt: The user stopped it; finished epochs are kept.
    """
    with storage_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
    finished = folder / _FINISHED_FILE
    is_main_process = True
    if not finished.exists():
        with _quiet_lightning():
            trainer = _trainer(config, folder, progress)
            _fit(trainer, module, datamodule, folder)
            is_main_process = trainer.is_global_zero
        if is_main_process:
            write_text_atomically(finished, f"{trainer.current_epoch}\n")
    module.load_state_dict(load_checkpoint(folder / BEST_CHECKPOINT)["state_dict"])
    num_epochs = read_num_epochs(finished) if is_main_process else 0
    # Of a true half or double precision: the graph is exported in single precision.
    return TrainingRun(module.network.cpu().float().eval(), num_epochs, is_main_process)


def check_devices(config: DeviceConfig) -> None:
    """Find out before a costly extraction whether Lightning takes these settings.

    Raises:
        ConfigError: It refuses the accelerator, devices, strategy or precision.
    """
    with _quiet_lightning():
        _on_devices(config, logger=False, enable_checkpointing=False, enable_progress_bar=False)


def _fit(
    trainer: lightning.Trainer, module: RegionModule, datamodule: RegionDataModule, folder: Path
) -> None:
    last = folder / LAST_CHECKPOINT
    if last.exists():
        load_checkpoint(last)
    on_interrupt = signal.getsignal(signal.SIGINT)
    try:
        with storage_errors(folder):
            trainer.fit(module, datamodule, ckpt_path=str(last) if last.exists() else None)
    except SystemExit:
        # Lightning's answer to an interrupt: it exits, deaf to any further one.
        if not trainer.interrupted:
            raise
        signal.signal(signal.SIGINT, on_interrupt)
        raise KeyboardInterrupt from None


def _on_devices(config: DeviceConfig, **options: Any) -> lightning.Trainer:
    try:
        return lightning.Trainer(
            accelerator=config.accelerator,
            devices=config.devices,
            strategy=config.strategy,
            precision=config.precision,
            **options,
        )
    except (MisconfigurationException, ImportError, RuntimeError, TypeError, ValueError) as error:
        raise ConfigError(
            f"Lightning cannot train with accelerator {config.accelerator!r}, devices "
            f"{config.devices!r}, strategy {config.strategy!r} and precision "
            f"{config.precision!r} ({str(error).strip().partition(chr(10))[0]}); change the one it "
            "names, or leave them at their defaults"
        ) from error


def _trainer(config: TrainingConfig, folder: Path, progress: Progress | None) -> lightning.Trainer:
    callbacks = [
        _StepSeed(config.seed),
        EarlyStopping(monitor="val_loss", patience=config.patience, mode="min"),
        ModelCheckpoint(
            dirpath=folder,
            filename=BEST_CHECKPOINT.removesuffix(".ckpt"),
            monitor="val_loss",
            mode="min",
            save_last=True,
            enable_version_counter=False,
        ),
    ]
    if progress is not None:
        callbacks.append(_Reporter(progress))
    return _on_devices(
        config.device,
        plugins=[AtomicCheckpoints()],
        max_epochs=config.max_epochs,
        logger=CSVLogger(folder.parent, name=folder.name, version=""),
        callbacks=callbacks,
        gradient_clip_val=1.0,
        log_every_n_steps=1,
        num_sanity_val_steps=0,
        enable_progress_bar=False,
        enable_model_summary=False,
        deterministic="warn",
    )


@contextmanager
def _quiet_lightning() -> Iterator[None]:
    """Hold back Lightning's notes about hardware and loader processes for the length of a run."""
    loggers = [logging.getLogger(name) for name in _LIGHTNING_LOGGERS]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", module="lightning.*")
            warnings.filterwarnings("ignore", module="torchmetrics.*")
            yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
