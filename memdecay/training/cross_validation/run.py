"""Train and test once for every fold, going on where an earlier run was killed."""

from __future__ import annotations

import dataclasses
import logging
import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from memdecay.data.extraction import Progress
from memdecay.data.store import ExtractedStore
from memdecay.data.trace import Trace
from memdecay.training.baselines import fit_position_baseline
from memdecay.training.chunks import UNLABELLED
from memdecay.training.config import TrainingConfig
from memdecay.training.cross_validation.folds import Fold
from memdecay.training.cross_validation.predictions import FoldPredictions, read_predictions
from memdecay.training.fit import TrainingData, run_fingerprint, train_network
from memdecay.training.metrics import fit_temperature
from memdecay.training.pipeline import training_data
from memdecay.training.predict import predict_logits, without_rules
from memdecay.training.supplement import Supplement

PREDICTIONS_FILE = "predictions.npz"

logger = logging.getLogger(__name__)


def run_folds(
    folds: Sequence[Fold],
    traces: Sequence[Trace],
    store: ExtractedStore,
    config: TrainingConfig,
    folder: Path,
    *,
    supplement: Supplement | None = None,
    progress: Progress | None = None,
) -> list[FoldPredictions]:
    """Train a model for each fold and keep what it says about the fold's sources.

    Args:
        folds: The folds.
        traces: All traces.
        store: Their hidden states.
        config: Settings of every fold's training; one process on one device.
        folder: Where each fold has a folder of its own.
        supplement: Traces that every fold trains on as well.
        progress: Called with epochs done and epochs at most, over all folds.

    Raises:
        TraceError: A part of a fold has no labelled token.
        StorageError: Something could not be written; finished folds stay.
    """
    found = []
    for index, fold in enumerate(folds):
        epochs = _Epochs(progress, index, len(folds), config.max_epochs)
        data = training_data(traces, store, fold.split, supplement)
        place = folder / f"{index:02d}-{_slug(fold.name)}"
        predictions = _predict(data, store, config, place, epochs.report)
        hits = predictions.logits.argmax(axis=1) == predictions.labels
        logger.info(
            "fold %d of %d: accuracy %.3f on %d tokens of %s, after %d epochs",
            index + 1,
            len(folds),
            hits.mean(),
            len(hits),
            fold.name,
            predictions.num_epochs,
        )
        found.append(predictions)
        epochs.finish()
    return found


def _predict(
    data: TrainingData,
    store: ExtractedStore,
    config: TrainingConfig,
    folder: Path,
    progress: Progress,
) -> FoldPredictions:
    # The store's name stands for the traces, their labels, the LLM and the layer.
    fingerprint = f"{store.folder.name}:{run_fingerprint(data, config)}"
    path = folder / PREDICTIONS_FILE
    if (finished := read_predictions(path, fingerprint)) is not None:
        return finished
    run = train_network(data, config, folder, progress=progress)
    validation = predict_logits(run.network, data.source, data.windows["validation"])
    logits, labels = predict_logits(run.network, data.source, data.windows["test"])
    alone, _ = predict_logits(without_rules(run.network), data.source, data.windows["test"])
    baseline = fit_position_baseline(data.source, data.windows["train"], config.seed)
    position_probs, _ = baseline.region_probs(data.source, data.windows["test"])
    predictions = FoldPredictions(
        logits=logits.numpy(),
        logits_alone=alone.numpy(),
        position_probs=position_probs.numpy(),
        labels=labels.numpy(),
        trace=_traces(store, data.windows["test"]),
        temperature=fit_temperature(*validation),
        num_epochs=run.num_epochs,
        fingerprint=fingerprint,
    )
    predictions.write(path)
    return predictions


def _traces(store: ExtractedStore, windows: Sequence[int]) -> NDArray[np.int64]:
    counts = [int((store.window(index).labels != UNLABELLED).sum()) for index in windows]
    return np.repeat([store.record(index).trace for index in windows], counts).astype(np.int64)


def _slug(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:40] or "fold"


@dataclasses.dataclass(frozen=True, slots=True)
class _Epochs:
    """Turns one fold's steps into epochs of the whole."""

    progress: Progress | None
    fold: int
    num_folds: int
    max_epochs: int

    def report(self, steps: int, all_steps: int) -> None:
        self._report(self.max_epochs * steps // max(all_steps, 1))

    def finish(self) -> None:
        self._report(self.max_epochs)

    def _report(self, epochs: int) -> None:
        if self.progress is not None:
            done = self.fold * self.max_epochs + epochs
            self.progress(done, self.num_folds * self.max_epochs)
