"""From labelled traces and an LLM to a trained classifier."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from memdecay.classifier.errors import TraceError
from memdecay.classifier.llm import LanguageModel
from memdecay.classifier.storage import check_writable
from memdecay.data.digests import trace_digest
from memdecay.data.extraction import ExtractionConfig, Progress, extract
from memdecay.data.generator import is_generated
from memdecay.data.store import ExtractedStore
from memdecay.data.trace import Trace
from memdecay.training.baselines import rule_regions
from memdecay.training.chunks import UNLABELLED, WindowSource
from memdecay.training.config import TrainingConfig
from memdecay.training.fit import FitResult, TrainingData, fit
from memdecay.training.splits import Split, split_traces
from memdecay.training.supplement import Supplement
from memdecay.training.trainer import check_devices
from memdecay.training.windows import JoinedWindows, StoreWindows, windows_by_part


def default_layer(num_layers: int) -> int:
    """Return the layer to read by default, a little past the middle.

    On SmolLM2 (30 layers) the output of layer 16 told regions apart best of those tried.
    """
    return num_layers * 16 // 30


def train_classifier(
    traces: Sequence[Trace],
    llm: LanguageModel,
    folder: Path,
    store_dir: Path,
    *,
    supplement: Sequence[Trace] = (),
    layer: int | None = None,
    training: TrainingConfig | None = None,
    extraction: ExtractionConfig | None = None,
    progress: Progress | None = None,
    training_progress: Progress | None = None,
) -> FitResult | None:
    """Extract hidden states, train on them and export the classifier.

    Run again after a kill, it goes on where it stopped: finished shards of hidden states and
    finished epochs are not done twice.

    Args:
        traces: Labelled traces of at least three tasks.
        llm: The model whose hidden states are read.
        folder: The classifier folder to write.
        store_dir: Where hidden states are kept for the next run.
        supplement: Generated traces that are trained on as well, but for what tools return in them,
            and never measured on.
        layer: The layer whose output is read; `default_layer` if None.
        training: Settings of the training.
        extraction: Settings of the extraction.
        progress: Called with tokens done and tokens in all while hidden states are extracted.
        training_progress: Called with steps done and steps at most while the network trains.

    Returns:
        The result, or None in the helper processes of a multi-process strategy.

    Raises:
        TraceError: The traces hold too few tasks or no labels in one part of the split.
        StorageError: Something could not be written.
        ConfigError: Lightning refuses the device settings.
    """
    training = training or TrainingConfig()
    # Before the costly part: nobody should wait for an extraction to learn of a small mistake.
    check_writable(folder, is_folder=True)
    check_devices(training.device)
    split = split_traces(traces, training.split)
    layer = default_layer(llm.num_layers) if layer is None else layer
    store = extract(traces, llm, layer, store_dir, extraction, progress=progress)
    extra = Supplement.extract(supplement, llm, layer, store_dir, extraction, progress=progress)
    data = training_data(traces, store, split, extra)
    # Asked for when the network is trained: helper processes have no use for it.
    rules = partial(rule_regions, traces, store, llm.tokenizer)
    data = dataclasses.replace(data, rules=rules)
    return fit(data, training, folder, progress=training_progress)


def training_data(
    traces: Sequence[Trace],
    store: ExtractedStore,
    split: Split,
    supplement: Supplement | None = None,
) -> TrainingData:
    """Gather what `fit` needs from the traces, their hidden states and their split.

    Args:
        traces: Labelled traces.
        store: Their hidden states.
        split: Which of them are trained, stopped and measured on.
        supplement: Further traces to train on.

    Raises:
        TraceError: A part of the split has no labelled token.
    """
    source: WindowSource = StoreWindows(store)
    windows = dict(windows_by_part(store, split))
    added: Sequence[Trace] = ()
    stores = [store.folder.name]
    if supplement is not None:
        added = supplement.traces
        stores.append(supplement.store_name)
        windows["train"] = [*windows["train"], *range(len(store), len(store) + len(supplement))]
        source = JoinedWindows(source, supplement.windows)
    for part, indices in windows.items():
        if not any((source.window(index).labels != UNLABELLED).any() for index in indices):
            raise TraceError(
                f"the {part} part of the traces has no labelled token; add labelled traces or "
                "choose another seed"
            )
    manifest = store.manifest
    return TrainingData(
        source=source,
        windows=windows,
        feature_layout=store.feature_layout,
        llm_name=manifest.llm_name,
        llm_fingerprint=manifest.llm_fingerprint,
        stores=tuple(stores),
        trained_on=tuple(
            sorted(
                {trace_digest(traces[index]) for index in (*split.train, *split.validation)}
                | {trace_digest(trace) for trace in added}
            )
        ),
        facts={
            "train_traces": len(split.train) + len(added),
            "validation_traces": len(split.validation),
            "test_traces": len(split.test),
            "generated_traces": sum(is_generated(trace) for trace in (*traces, *added)),
            "recorded_traces": sum(not is_generated(trace) for trace in traces),
            "train_tokens": sum(source.num_tokens(index) for index in windows["train"]),
            "sources": sorted({trace.source for trace in (*traces, *added) if trace.source}),
        },
    )
