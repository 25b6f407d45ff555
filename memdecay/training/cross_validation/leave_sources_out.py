"""Leave-one-source-out: how good a classifier is on sources that it was not trained on."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from memdecay.classifier.llm import LanguageModel
from memdecay.classifier.storage import check_writable, write_text_atomically
from memdecay.data.extraction import ExtractionConfig, Progress, extract
from memdecay.data.store import ExtractedStore
from memdecay.data.trace import Trace
from memdecay.training.baselines import POSITION, RULES, rule_probs, rule_regions
from memdecay.training.calibration.resampling import Estimate
from memdecay.training.calibration.tokens import TaggedTokens
from memdecay.training.config import TrainingConfig
from memdecay.training.cross_validation.ceiling import second_annotator
from memdecay.training.cross_validation.folds import Fold, source_folds, source_of
from memdecay.training.cross_validation.pooling import PooledFolds, pool_folds
from memdecay.training.cross_validation.predictions import FoldPredictions
from memdecay.training.cross_validation.results import (
    CrossValidation,
    FoldFigures,
    calibration_estimate,
    metrics_of,
    tagger_figures,
)
from memdecay.training.cross_validation.run import run_folds
from memdecay.training.cross_validation.table import markdown_report
from memdecay.training.metrics import RegionMetrics
from memdecay.training.pipeline import default_layer
from memdecay.training.supplement import Supplement
from memdecay.training.trainer import check_devices
from memdecay.training.windows import StoreWindows

CLASSIFIER = "classifier"
ALONE = "classifier, without the rules' scores"
CEILING = "second annotator"
RESULTS_FILE = "results.json"
TABLE_FILE = "results.md"


@dataclass(frozen=True, slots=True)
class CrossValidationConfig:
    """Settings of `cross_validate`.

    Attributes:
        num_folds: How many folds to pack the sources into; None for one fold a source.
        layer: The layer whose output is read; `default_layer` if None.
        training: Settings of every fold's training.
        extraction: Settings of the extraction.
    """

    num_folds: int | None = None
    layer: int | None = None
    training: TrainingConfig = field(default_factory=TrainingConfig)
    extraction: ExtractionConfig = field(default_factory=ExtractionConfig)


def cross_validate(
    traces: Sequence[Trace],
    llm: LanguageModel,
    folder: Path,
    store_dir: Path,
    config: CrossValidationConfig | None = None,
    *,
    supplement: Sequence[Trace] = (),
    progress: Progress | None = None,
    training_progress: Progress | None = None,
) -> CrossValidation:
    """Hold out every source once, train on the others and measure on it; write the figures.

    Run again after a kill, it goes on where it stopped.

    Args:
        traces: Labelled traces of at least two sources.
        llm: The model whose hidden states are read.
        folder: Where the folds, ``results.json`` and ``results.md`` are written.
        store_dir: Where hidden states are kept; the store of `train_classifier` is found there.
        config: Settings.
        supplement: Generated traces that every fold trains on as well; see `train_classifier`.
        progress: Called with tokens done and tokens in all while hidden states are extracted.
        training_progress: Called with epochs done and epochs at most, over all folds.

    Raises:
        TraceError: The traces are of too few sources, or a part of a fold has no labels.
        ValueError: There are not as many sources as folds.
        StorageError: Something could not be written.
        ConfigError: Lightning refuses the device settings.
    """
    config = config or CrossValidationConfig()
    check_writable(folder, is_folder=True)
    check_devices(config.training.device)
    folds = source_folds(traces, config.training.split, config.num_folds)
    layer = default_layer(llm.num_layers) if config.layer is None else config.layer
    store = extract(traces, llm, layer, store_dir, config.extraction, progress=progress)
    extra = Supplement.extract(
        supplement, llm, layer, store_dir, config.extraction, progress=progress
    )
    predictions = run_folds(
        folds,
        traces,
        store,
        config.training,
        folder / "folds",
        supplement=extra,
        progress=training_progress,
    )
    rules = rule_regions(traces, store, llm.tokenizer)
    tagged = pool_folds(predictions)
    source = StoreWindows(store)
    taggers = {
        POSITION: tagged.tagged(tagged.position_probs),
        RULES: tagged.tagged(rule_probs(source, _tested_windows(store, folds), rules).numpy()),
        ALONE: tagged.tokens_alone(),
        CLASSIFIER: tagged.tokens(tagged.crossed_temperatures),
    }
    ceiling = second_annotator(traces, llm.tokenizer)
    result = CrossValidation(
        llm_name=llm.name,
        layer=layer,
        taggers={
            name: tagger_figures(tokens)
            for name, tokens in (taggers | ({CEILING: ceiling} if ceiling else {})).items()
        },
        by_source=_by_source(traces, taggers),
        calibration=_calibration(tagged),
        temperature=tagged.pooled_temperature,
        folds=_fold_figures(folds, predictions, tagged),
    )
    write_text_atomically(folder / RESULTS_FILE, json.dumps(result.to_dict(), indent=2) + "\n")
    write_text_atomically(folder / TABLE_FILE, markdown_report(result))
    return result


def _tested_windows(store: ExtractedStore, folds: Sequence[Fold]) -> list[int]:
    tested = {trace for fold in folds for trace in fold.split.test}
    return [index for index in range(len(store)) if store.record(index).trace in tested]


def _by_source(
    traces: Sequence[Trace], taggers: Mapping[str, TaggedTokens]
) -> dict[str, dict[str, RegionMetrics]]:
    names = [source_of(trace) for trace in traces]
    rows = {}
    for source in dict.fromkeys(names):
        wanted = np.array([name == source for name in names])
        chosen = {name: tokens.of_traces(wanted) for name, tokens in taggers.items()}
        if all(len(tokens) for tokens in chosen.values()):
            rows[source] = {name: metrics_of(tokens) for name, tokens in chosen.items()}
    return rows


def _calibration(tagged: PooledFolds) -> dict[str, Estimate]:
    ways = {
        "none": None,
        "validation traces": tagged.own_temperatures,
        "other held-out sources": tagged.crossed_temperatures,
    }
    return {name: calibration_estimate(tagged.tokens(way)) for name, way in ways.items()}


def _fold_figures(
    folds: Sequence[Fold], predictions: Sequence[FoldPredictions], tagged: PooledFolds
) -> list[FoldFigures]:
    return [
        FoldFigures(
            sources=fold.sources,
            traces=len(fold.split.test),
            tokens=len(found.labels),
            epochs=found.num_epochs,
            own_temperature=found.temperature,
            crossed_temperature=float(crossed),
        )
        for fold, found, crossed in zip(
            folds, predictions, tagged.crossed_temperatures, strict=True
        )
    ]
