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
        "## How regions fade",
        _region_rows(card),
        "## How it was trained",
        _facts(card.training),
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
