"""The model card that a person reads: the classifier's folder explained in Markdown."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from memdecay.classifier.card import ClassifierCard
from memdecay.classifier.regions import REGION_LABELS, Region


def model_card(card: ClassifierCard) -> str:
    """Return a classifier's model card as Markdown."""
    layout = card.feature_layout
    sections = [
        f"# Region classifier for {card.llm_name}",
        "Tags each token of an agent's run with one of five memory regions, from one hidden state "
        "of the LLM and the token's position. Written by `memdecay train`, used by `memdecay run`.",
        "## What it reads",
        f"- LLM: {card.llm_name}, fingerprint `{card.llm_fingerprint}`; another LLM is refused.\n"
        f"- Hidden state: output of layer {layout.layer} (counted from 0), "
        f"width {layout.hidden_size}.\n"
        f"- Network: {card.network.projection_size} projected, {card.network.mlp_size} inner "
        f"units, {card.network.context_tokens} tokens of context on each side.\n"
        f"- Temperature {card.temperature:.3f}; importance spreads over "
        f"{card.propagation.radius} tokens with factor {card.propagation.attenuation}.",
        "## How good it is",
        _metrics_section(card.metrics),
        *_evaluation_sections(card.metrics.get("evaluations", {})),
        "## How regions fade",
        _region_rows(card),
        "## How it was trained",
        _generated_note(card.training) + _facts(card.training),
        "## Made with",
        _facts(card.versions),
    ]
    return "\n\n".join(sections) + "\n"


def _metrics_section(metrics: Mapping[str, Any]) -> str:
    if "macro_f1" not in metrics:
        return "No held-out traces were measured."
    per_region = metrics["per_region"]
    rows = [
        f"| {label} | {per_region[label]['precision']:.3f} | {per_region[label]['recall']:.3f} | "
        f"{per_region[label]['f1']:.3f} | {per_region[label]['support']} |"
        for label in REGION_LABELS
        if label in per_region
    ]
    summary = (
        f"On {metrics['tokens']} labelled tokens of held-out traces: macro-F1 "
        f"{metrics['macro_f1']:.3f}, expected calibration error {metrics['ece']:.3f}."
    )
    header = ["| region | precision | recall | F1 | tokens |", "|---|---|---|---|---|"]
    sections = [summary, "\n".join(header + rows)]
    if baselines := metrics.get("baselines"):
        sections.append(_baseline_rows(metrics, baselines))
    return "\n\n".join(sections)


def _evaluation_sections(evaluations: Mapping[str, Any]) -> list[str]:
    return [_evaluation(name, figures) for name, figures in evaluations.items()]


def _evaluation(name: str, figures: Mapping[str, Any]) -> str:
    seen = figures.get("trained_on", 0)
    warning = f" It was trained on {seen} of these traces: the figures flatter it." if seen else ""
    traces = f" of {figures['traces']} traces" if "traces" in figures else ""
    header = (
        f"On {figures['tokens']} labelled tokens{traces} in `{name}`: macro-F1 "
        f"{figures['macro_f1']:.3f}, accuracy {figures['accuracy']:.3f}, expected calibration "
        f"error {figures['ece']:.3f}.{warning}"
    )
    return header + "\n\n" + _region_f1(figures["per_region"])


def _region_f1(per_region: Mapping[str, Any]) -> str:
    labels = [label for label in REGION_LABELS if label in per_region]
    scores = (f"{per_region[label]['f1']:.3f}" for label in labels)
    return (
        f"| F1 | {' | '.join(labels)} |\n|{'---|' * (len(labels) + 1)}\n| | {' | '.join(scores)} |"
    )


def _generated_note(training: Mapping[str, Any]) -> str:
    if training.get("recorded_traces", 1) or not training.get("generated_traces"):
        return ""
    return (
        "All of its traces were written by the generator (`memdecay.data.generator`), whose labels "
        "are exact by construction. It has seen no recorded run; a classifier trained on labelled "
        "runs of your own tools tags them better.\n\n"
    )


def _baseline_rows(metrics: Mapping[str, Any], baselines: Mapping[str, Any]) -> str:
    rows = ["| on the same tokens | macro-F1 | accuracy |", "|---|---|---|"]
    for name, figures in (*baselines.items(), ("this classifier", metrics)):
        rows.append(f"| {name} | {figures['macro_f1']:.3f} | {figures['accuracy']:.3f} |")
    return "\n".join(rows)


def _region_rows(card: ClassifierCard) -> str:
    rows = ["| region | initial score | half-life in tokens |", "|---|---|---|"]
    for region in Region:
        decay = card.region_table[region]
        half_life = f"{decay.half_life_tokens:.0f}" if decay.decay else "never fades"
        rows.append(f"| {region.label} | {decay.initial_score:g} | {half_life} |")
    return "\n".join(rows)


def _facts(facts: Mapping[str, Any]) -> str:
    return "\n".join(f"- {name}: {value}" for name, value in facts.items()) or "Nothing recorded."
