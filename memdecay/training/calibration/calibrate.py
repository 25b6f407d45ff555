"""From a classifier and labelled traces to a calibration report."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from memdecay.classifier.artifact import ONNX_FILE, ClassifierArtifact
from memdecay.classifier.errors import TraceError
from memdecay.classifier.llm import LanguageModel
from memdecay.data.digests import trace_digest
from memdecay.data.extraction import Progress, extract
from memdecay.data.trace import Trace
from memdecay.training.calibration.baseline import Baseline
from memdecay.training.calibration.coverage import coverage
from memdecay.training.calibration.figures import figures
from memdecay.training.calibration.report import (
    BaselineFacts,
    CalibrationReport,
    ClassifierFacts,
    Part,
)
from memdecay.training.calibration.slices import by_position, by_source
from memdecay.training.calibration.spans import span_evaluator, span_scores
from memdecay.training.calibration.tokens import (
    TaggedTokens,
    logits_of,
    tagged_tokens,
    without_temperature,
)
from memdecay.training.calibration.verdict.drift import DriftConfig, TraceRows, compare
from memdecay.training.calibration.verdict.gaps import gap_tests
from memdecay.training.calibration.verdict.verdict import GAP_TOLERANCE, judge
from memdecay.training.calibration.worst import with_texts, wrong_spans
from memdecay.training.evaluation import Evaluation
from memdecay.training.metrics import fit_temperature, region_metrics


@dataclass(frozen=True, slots=True)
class CalibrationConfig:
    """What a report holds.

    Attributes:
        target_accuracy: The accuracy by which the abstain threshold is chosen.
        num_resamples: Bootstrap samples behind each interval.
        num_worst: Wrong spans to show.
        show_text: Whether their text is shown.
        seed: Of all resampling.
        drift: When a change against an earlier report counts.
    """

    target_accuracy: float = 0.9
    num_resamples: int = 1000
    num_worst: int = 12
    show_text: bool = True
    seed: int = 0
    drift: DriftConfig = field(default_factory=DriftConfig)

    def __post_init__(self) -> None:
        """Check the ranges.

        Raises:
            ValueError: A value is out of its range.
        """
        if not 0 < self.target_accuracy <= 1:
            raise ValueError(
                f"target_accuracy must lie above 0 and at most at 1, got {self.target_accuracy}"
            )
        if self.num_resamples < 1:
            raise ValueError(f"num_resamples must be 1 or above, got {self.num_resamples}")
        if self.num_worst < 0:
            raise ValueError(f"num_worst must be 0 or above, got {self.num_worst}")


def calibrate(
    artifact: ClassifierArtifact,
    traces: Sequence[Trace],
    llm: LanguageModel,
    store_dir: Path,
    config: CalibrationConfig | None = None,
    *,
    baseline: Baseline | None = None,
    progress: Progress | None = None,
) -> CalibrationReport:
    """Measure a classifier on labelled traces and judge how far it can be trusted.

    Where the classifier was trained on some of the traces, everything but the evaluation's own
    figures is about the others.

    Args:
        artifact: The classifier; `ClassifierArtifact.check_llm` it first.
        traces: Labelled traces.
        llm: The model that the classifier was trained on.
        store_dir: Where hidden states are kept for the next run.
        config: What the report holds.
        baseline: An earlier report to compare with.
        progress: Called with tokens done and tokens in all while hidden states are extracted.

    Raises:
        TraceError: No token is labelled.
        ConfigError: nervaluate is not installed.
        ArtifactError: ONNX Runtime cannot open the graph.
    """
    config = config or CalibrationConfig()
    span_evaluator()  # Found missing now rather than after the work.
    layer = artifact.card.feature_layout.layer
    store = extract(traces, llm, layer, store_dir, progress=progress)
    tokens = tagged_tokens(artifact, store)
    if not len(tokens):
        raise TraceError("no token of the traces is labelled; give traces whose spans hold text")
    return report_on(tokens, traces, artifact, llm.tokenizer, config, baseline)


def report_on(
    tokens: TaggedTokens,
    traces: Sequence[Trace],
    artifact: ClassifierArtifact,
    tokenizer: Any,
    config: CalibrationConfig,
    baseline: Baseline | None = None,
) -> CalibrationReport:
    """Measure tokens that a classifier has tagged; see `calibrate`.

    Args:
        tokens: The labelled tokens of the traces, at least one.
        traces: The traces.
        artifact: The classifier that tagged them.
        tokenizer: The LLM's tokenizer.
        config: What the report holds.
        baseline: An earlier report to compare with.
    """
    digests = [trace_digest(trace) for trace in traces]
    sources = [trace.source for trace in traces]
    is_seen = np.isin(digests, artifact.card.trained_on)
    part, measured = _choose_part(tokens, is_seen)
    undivided = dataclasses.replace(
        measured,
        region_probs=without_temperature(measured.region_probs, artifact.card.temperature),
    )
    rng = np.random.default_rng(config.seed)
    num_resamples = config.num_resamples
    found = figures(measured, undivided, num_resamples, rng)
    present = np.unique(measured.trace).tolist()
    rows = TraceRows(tuple(digests[index] for index in present), found.sums)
    drift = None if baseline is None else compare(rows, baseline.rows, config.drift)
    gaps = gap_tests(found.sums, GAP_TOLERANCE, config.drift.alpha)
    wrong = wrong_spans(measured, config.num_worst)
    return CalibrationReport(
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        classifier=_facts(artifact, undivided),
        evaluation=_evaluation(tokens, len(traces), int(is_seen.sum())),
        part=part,
        parts=_parts(tokens, is_seen, part),
        figures=found,
        spans=span_scores(measured),
        coverage=coverage(measured, config.target_accuracy, num_resamples, rng),
        sources=by_source(measured, sources, num_resamples, rng),
        positions=by_position(measured, num_resamples, rng),
        worst=with_texts(wrong, traces, tokenizer, show_text=config.show_text),
        gaps=gaps,
        drift=drift,
        baseline=None if baseline is None else _baseline_facts(baseline, artifact),
        verdict=judge(gaps, drift, is_trained_on=part is Part.SEEN),
        rows=rows,
        trace_sources=tuple(sources[index] for index in present),
    )


def _choose_part(tokens: TaggedTokens, is_seen: NDArray[np.bool_]) -> tuple[Part, TaggedTokens]:
    if not is_seen.any():
        return Part.ALL, tokens
    unseen = tokens.of_traces(~is_seen)
    return (Part.UNSEEN, unseen) if len(unseen) else (Part.SEEN, tokens)


def _parts(tokens: TaggedTokens, is_seen: NDArray[np.bool_], part: Part) -> dict[Part, Evaluation]:
    if part is not Part.UNSEEN:
        return {}
    num_seen = int(is_seen.sum())
    sides = {
        Part.UNSEEN: (tokens.of_traces(~is_seen), len(is_seen) - num_seen, 0),
        Part.SEEN: (tokens.of_traces(is_seen), num_seen, num_seen),
    }
    return {name: _evaluation(*side) for name, side in sides.items() if len(side[0])}


def _evaluation(tokens: TaggedTokens, num_traces: int, num_trained_on: int) -> Evaluation:
    metrics = region_metrics(torch.from_numpy(tokens.region_probs), torch.from_numpy(tokens.labels))
    return Evaluation(metrics=metrics, num_traces=num_traces, num_trained_on=num_trained_on)


def _facts(artifact: ClassifierArtifact, undivided: TaggedTokens) -> ClassifierFacts:
    card = artifact.card
    logits = torch.from_numpy(logits_of(undivided.region_probs))
    return ClassifierFacts(
        name="/".join(artifact.folder.resolve().parts[-2:]),
        llm=card.llm_name,
        digest=card.files[ONNX_FILE].sha256,
        temperature=card.temperature,
        best_temperature=fit_temperature(logits, torch.from_numpy(undivided.labels)),
        num_trained_on=len(card.trained_on),
    )


def _baseline_facts(baseline: Baseline, artifact: ClassifierArtifact) -> BaselineFacts:
    return BaselineFacts(
        created=baseline.created,
        classifier=baseline.classifier,
        is_same_classifier=baseline.digest == artifact.card.files[ONNX_FILE].sha256,
    )
