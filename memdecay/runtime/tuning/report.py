"""A fit in stages as JSON and as Markdown."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from memdecay.classifier.region_settings import RegionSettings
from memdecay.classifier.regions import REGION_LABELS, Region
from memdecay.classifier.storage import write_text_atomically
from memdecay.runtime.bench.report.statistics import Interval
from memdecay.runtime.tuning.stage import MomentResult, StageFit
from memdecay.runtime.tuning.tune import Outcome, Stage, Tuned


@dataclass(frozen=True, slots=True)
class FitContext:
    """What a fit was made with.

    Attributes:
        model: The language model's name.
        tags: Where the regions came from.
        budget: Share of the full cache's bytes.
        next_tokens: Tokens read behind every snapshot.
    """

    model: str
    tags: str
    budget: float
    next_tokens: int


def fit_json(tuned: Tuned, context: FitContext) -> dict[str, Any]:
    """Return a fit as plain data."""
    return {
        **asdict(context),
        "outcome": tuned.outcome.value,
        "chosen": _settings_json(tuned.chosen),
        "given": _settings_json(tuned.given),
        "stages": [_stage_json(stage) for stage in tuned.stages],
    }


def fit_markdown(tuned: Tuned, context: FitContext) -> str:
    """Return a fit as a page for people."""
    return "\n".join(
        [
            "# How the regions are scored",
            "",
            f"Fitted for {context.model} with regions from {context.tags}, at "
            f"{context.budget:.1%} of the full cache's bytes. {outcome_sentence(tuned)}",
            "",
            *_settings_table(tuned.chosen),
            "",
            "All ratios are the KL to the full cache over that of the same cache without regions, "
            "geometric mean over traces with its 95 % bootstrap interval; below 1 the regions "
            f"help. KL is the mean over the {context.next_tokens} tokens behind a moment, nats a "
            "token.",
            *(line for stage in tuned.stages for line in _stage_lines(stage)),
            "",
        ]
    )


def write_fit_report(out: Path, tuned: Tuned, context: FitContext) -> Path:
    """Write a fit's report beside the file of its settings; return the page's path.

    Args:
        out: The file of settings: ``x.toml`` gets ``x.report.json`` and ``x.report.md``.
        tuned: The fit.
        context: What it was made with.

    Raises:
        StorageError: A file could not be written.
    """
    figures = json.dumps(fit_json(tuned, context), indent=2) + "\n"
    write_text_atomically(out.with_suffix(".report.json"), figures)
    page = out.with_suffix(".report.md")
    write_text_atomically(page, fit_markdown(tuned, context))
    return page


def outcome_sentence(tuned: Tuned) -> str:
    """Say what the chosen settings are, in a sentence or two."""
    kept = [stage.name for stage in tuned.stages if stage.is_kept]
    dropped = [stage.name for stage in tuned.stages if not stage.is_kept]
    if tuned.outcome is Outcome.NONE:
        return (
            "On traces left out of the fit regions do not lower the KL, so the written settings "
            "make them play no part."
        )
    if tuned.outcome is Outcome.GIVEN:
        return (
            "On traces left out of the fit nothing that was fitted lowers the KL, so the settings "
            "are those that the fit began with."
        )
    sentence = f"On traces left out of the fit the KL falls with the fitted {' and '.join(kept)}"
    return f"{sentence}, not with the {dropped[0]}." if dropped else f"{sentence}."


def shown(interval: Interval) -> str:
    """Return a ratio with its interval as text."""
    return f"{interval.value:.3f} ({interval.low:.3f} to {interval.high:.3f})"


def _settings_json(settings: RegionSettings) -> dict[str, Any]:
    return {
        "table": settings.table.to_dict(),
        "weights": dict(zip(REGION_LABELS, settings.weights, strict=True)),
        "template_weight": settings.template_weight,
        "prior_weight": settings.prior_weight,
    }


def _stage_json(stage: StageFit) -> dict[str, Any]:
    sides = {"test": True} if stage.name == Stage.TABLE else {"fit": False, "test": True}
    return {
        "name": stage.name,
        "is_kept": stage.is_kept,
        "is_finished": stage.is_finished,
        "num_evaluations": stage.num_evaluations,
        "fitted": _settings_json(stage.fitted),
        "ratio": {
            side: {
                name: asdict(stage.ratio(f"kl_{name}", is_test=is_test))
                for name in ("before", "after")
            }
            for side, is_test in sides.items()
        },
        "moments": [asdict(moment) for moment in stage.moments],
    }


def _stage_lines(stage: StageFit) -> list[str]:
    if stage.name == Stage.TABLE:
        about = (
            "Scores and half-lives by least squares, from the attention that came. At each moment "
            "the table is one that was fitted to the other groups of traces."
        )
        sides = [("left out", True)]
    else:
        tried = f"{stage.num_evaluations} settings were tried"
        ended = tried if stage.is_finished else f"{tried}, then the search was ended"
        about = f"Searched for on some groups of traces by their KL; {ended}."
        sides = [("fit", False), ("test", True)]
    verdict = "Kept." if stage.is_kept else "Not kept."
    return [
        "",
        f"## The {stage.name}",
        "",
        f"{about} {verdict}",
        "",
        *_settings_table(stage.fitted),
        "",
        "| traces | before | fitted |",
        "|---|---|---|",
        *(
            f"| {name} | {shown(stage.ratio('kl_before', is_test=is_test))} | "
            f"{shown(stage.ratio(is_test=is_test))} |"
            for name, is_test in sides
        ),
        "",
        "| trace | | no regions | before | fitted |",
        "|---|---|---|---|---|",
        *(_row(moment, stage.name) for moment in stage.moments),
    ]


def _settings_table(settings: RegionSettings) -> list[str]:
    rows = []
    for region in Region:
        row, weight = settings.table[region], settings.weights[region]
        life = row.half_life_tokens
        fades = "never fades" if math.isinf(life) else f"{life:,.0f}"
        rows.append(f"| {region.label} | {row.initial_score:g} | {fades} | {weight:+.2f} |")
    template = f"| the chat template's tokens | | | {settings.template_weight:+.2f} |"
    lines = ["| region | initial score | half-life, tokens | weight |", "|---|---|---|---|"]
    lines += [*rows, template]
    if settings.prior_weight is not None:
        lines += ["", f"Exponent of the decayed score: {settings.prior_weight:g}"]
    return lines


def _row(moment: MomentResult, stage: str) -> str:
    name = moment.trace.replace("|", "/")
    side = "left out" if stage == Stage.TABLE else "test" if moment.is_test else "fit"
    return (
        f"| {name} | {side} | {moment.kl_none:.4f} | {moment.kl_before:.4f} | "
        f"{moment.kl_after:.4f} |"
    )
