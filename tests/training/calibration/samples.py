"""Tagged tokens whose truth is known, and reports on traces that hold hostile text."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from memdecay.classifier.artifact import ONNX_FILE, ClassifierArtifact
from memdecay.classifier.card import ClassifierCard, FileDigest
from memdecay.classifier.features import NUM_POSITION_FEATURES, FeatureLayout
from memdecay.classifier.network import NetworkConfig
from memdecay.classifier.propagation import PropagationConfig
from memdecay.classifier.regions import NUM_REGIONS, Region, RegionTable
from memdecay.data.preparation import prepare_trace
from memdecay.data.trace import Message, Span, Trace
from memdecay.training.calibration import CalibrationConfig, CalibrationReport
from memdecay.training.calibration.baseline import Baseline
from memdecay.training.calibration.calibrate import report_on
from memdecay.training.calibration.sums import trace_sums
from memdecay.training.calibration.tokens import TaggedTokens
from memdecay.training.calibration.verdict.drift import DriftConfig, TraceRows
from tests.tiny import tiny_tokenizer

QUICK = CalibrationConfig(num_resamples=40, drift=DriftConfig(num_resamples=300))

HOSTILE = (
    "<script>alert('page')</script>",
    "</pre></main><img src=https://example.org/x.png onerror=alert(1)>",
    "red \x1b[31mtext\x1b[0m, bell \x07, nul \x00, delete \x7f",
    "bidi \u202egnp.exe\u202c and \u2066isolate\u2069, zero\u200bwidth \ufeff",
    "lone surrogate \ud800 here",
    "{{ 7 * 7 }} {% raw %} &amp; &lt;b&gt; ]]> <!-- ",
    "Z" + "\u0334\u0335\u0336" * 40 + " combining",
    "中文 text, 😀 and | pipes | `ticks` ```fence",
)
"""Contents that try to break out of a page or to steer what shows them."""


def calibrated_tokens(
    num_traces: int = 20, num_tokens: int = 60, *, seed: int = 0, sharpness: float = 1.0
) -> TaggedTokens:
    """Return tokens whose labels are drawn from their probabilities; traces differ in difficulty.

    Args:
        num_traces: Traces.
        num_tokens: Tokens of each.
        seed: Of the draw.
        sharpness: Power that the probabilities are then raised to: above 1 they promise too much.
    """
    rng = np.random.default_rng(seed)
    concentrations = rng.uniform(0.1, 0.6, num_traces)
    region_probs = np.concatenate(
        [rng.dirichlet(np.full(NUM_REGIONS, value), num_tokens) for value in concentrations]
    )
    labels = (region_probs.cumsum(axis=1) < rng.random((len(region_probs), 1))).sum(axis=1)
    raised = np.maximum(region_probs, 1e-12) ** sharpness
    return TaggedTokens(
        region_probs=(raised / raised.sum(axis=1, keepdims=True)).astype(np.float32),
        labels=np.minimum(labels, NUM_REGIONS - 1).astype(np.int64),
        trace=np.repeat(np.arange(num_traces), num_tokens),
        message=np.tile(np.arange(num_tokens) // 10, num_traces),
        position=np.tile(np.arange(num_tokens), num_traces),
    )


def rows_of(tokens: TaggedTokens, prefix: str = "t") -> TraceRows:
    """Return the rows of tokens, with digests that begin with a prefix."""
    sums = trace_sums(tokens)
    return TraceRows(tuple(f"{prefix}{index}" for index in range(len(sums.nll))), sums)


def hostile_traces(count: int = 12) -> list[Trace]:
    """Return traces of hostile messages, each labelled whole."""
    traces = []
    for index in range(count):
        contents = [f"{index} {HOSTILE[(index + turn) % len(HOSTILE)]} end" for turn in range(5)]
        messages = [
            Message(role, content)
            for role, content in zip(
                ("system", "user", "assistant", "tool", "assi<b>stant"), contents, strict=True
            )
        ]
        spans = tuple(
            Span(turn, 0, len(content), Region((turn + index) % NUM_REGIONS))
            for turn, content in enumerate(contents)
        )
        source = ("<i>source</i>", "plain", "")[index % 3]
        traces.append(Trace(f"id-{index}</title>\x1b", tuple(messages), source, spans))
    return traces


def tags_for(traces: Sequence[Trace], *, seed: int = 0, strength: float = 2.0) -> TaggedTokens:
    """Return tokens of traces with random probabilities that lean to the labels."""
    rng = np.random.default_rng(seed)
    tokenizer = tiny_tokenizer()
    parts: dict[str, list[np.ndarray]] = {"labels": [], "trace": [], "message": [], "position": []}
    for index, trace in enumerate(traces):
        prepared = prepare_trace(trace, tokenizer, 100_000)
        labelled = prepared.labels >= 0
        parts["labels"].append(prepared.labels[labelled].astype(np.int64))
        parts["trace"].append(np.full(int(labelled.sum()), index))
        parts["message"].append(prepared.tokens.message_index[labelled].astype(np.int64))
        parts["position"].append(prepared.tokens.position[labelled].astype(np.int64))
    arrays = {name: np.concatenate(arrays) for name, arrays in parts.items()}
    logits = rng.normal(size=(len(arrays["labels"]), NUM_REGIONS)) / 2
    logits[np.arange(len(logits)), arrays["labels"]] += strength
    # Messages of two kinds are tagged wrong as a whole.
    is_wrong = np.isin((arrays["trace"] + arrays["message"]) % len(HOSTILE), (0, 3))
    logits[is_wrong, (arrays["labels"][is_wrong] + 1) % NUM_REGIONS] += 2 * strength
    weights = np.exp(logits)
    region_probs = (weights / weights.sum(axis=1, keepdims=True)).astype(np.float32)
    return TaggedTokens(region_probs=region_probs, **arrays)


def card_artifact(trained_on: Sequence[str] = ()) -> ClassifierArtifact:
    """Return a classifier of which there is nothing but the card."""
    card = ClassifierCard(
        llm_name="tiny",
        llm_fingerprint="0" * 16,
        feature_layout=FeatureLayout(1, 32),
        network=NetworkConfig(hidden_size=32, num_position_features=NUM_POSITION_FEATURES),
        region_table=RegionTable(),
        propagation=PropagationConfig(),
        temperature=0.8,
        trained_on=tuple(trained_on),
        files={ONNX_FILE: FileDigest(1, "ab" * 32)},
    )
    return ClassifierArtifact(Path("classifiers/<mine>"), card)


def hostile_report(
    *,
    trained_on: Sequence[str] = (),
    config: CalibrationConfig = QUICK,
    baseline: Baseline | None = None,
    strength: float = 2.0,
) -> CalibrationReport:
    """Return a report on `hostile_traces`."""
    traces = hostile_traces()
    return report_on(
        tags_for(traces, strength=strength),
        traces,
        card_artifact(trained_on),
        tiny_tokenizer(),
        config,
        baseline,
    )
