"""An exported classifier measured on labelled traces."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from memdecay.classifier.artifact import ClassifierArtifact
from memdecay.classifier.errors import TraceError
from memdecay.classifier.export import run_session
from memdecay.classifier.llm import LanguageModel
from memdecay.classifier.regions import NUM_REGIONS
from memdecay.data.digests import trace_digest
from memdecay.data.extraction import Progress, extract
from memdecay.data.store import ExtractedStore
from memdecay.data.trace import Trace
from memdecay.training.chunks import UNLABELLED, collate
from memdecay.training.metrics import RegionMetrics, region_metrics
from memdecay.training.windows import StoreWindows


@dataclass(frozen=True, slots=True)
class Evaluation:
    """Figures of a classifier on some traces.

    Attributes:
        metrics: Over all labelled tokens.
        num_traces: Traces measured.
        num_trained_on: How many of them the classifier was trained on.
    """

    metrics: RegionMetrics
    num_traces: int
    num_trained_on: int

    def to_dict(self) -> dict[str, Any]:
        """Return the figures as plain data for JSON."""
        return self.metrics.to_dict() | {
            "traces": self.num_traces,
            "trained_on": self.num_trained_on,
        }


def evaluate_classifier(
    artifact: ClassifierArtifact,
    traces: Sequence[Trace],
    llm: LanguageModel,
    store_dir: Path,
    *,
    progress: Progress | None = None,
) -> Evaluation:
    """Extract hidden states, tag them with the exported graph and compare with the labels.

    Args:
        artifact: The classifier; `ClassifierArtifact.check_llm` it first.
        traces: Labelled traces.
        llm: The model that the classifier was trained on.
        store_dir: Where hidden states are kept for the next run.
        progress: Called with tokens done and tokens in all while hidden states are extracted.

    Raises:
        TraceError: No token is labelled.
        ArtifactError: ONNX Runtime cannot open the graph.
    """
    layer = artifact.card.feature_layout.layer
    store = extract(traces, llm, layer, store_dir, progress=progress)
    region_probs, labels = tag_store(artifact, store)
    if labels.numel() == 0:
        raise TraceError("no token of the traces is labelled; give traces whose spans hold text")
    trained_on = set(artifact.card.trained_on)
    return Evaluation(
        metrics=region_metrics(region_probs, labels),
        num_traces=len(traces),
        num_trained_on=sum(trace_digest(trace) in trained_on for trace in traces),
    )


def tag_store(artifact: ClassifierArtifact, store: ExtractedStore) -> tuple[Tensor, Tensor]:
    """Run the exported graph over a store.

    Returns:
        Region probabilities ``(tokens, num_regions)``, float32, and labels ``(tokens,)``, int64,
        of the labelled tokens in order.
    """
    session = artifact.open_session()
    source = StoreWindows(store)
    region_probs, labels = [torch.zeros(0, NUM_REGIONS)], [torch.zeros(0, dtype=torch.int64)]
    for index in range(len(source)):
        batch = collate([source.window(index)])
        labelled = batch.labels != UNLABELLED
        output, _ = run_session(session, batch[:3])
        region_probs.append(torch.from_numpy(output)[labelled])
        labels.append(batch.labels[labelled])
    return torch.cat(region_probs), torch.cat(labels)
