"""A fit as JSON and as Markdown."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from memdecay.classifier.regions import REGION_LABELS
from memdecay.classifier.storage import write_text_atomically
from memdecay.runtime.bench.report.statistics import Interval
from memdecay.runtime.tuning.fit import Fit, MomentResult


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


def fit_json(fit: Fit, context: FitContext) -> dict[str, Any]:
    """Return a fit as plain data."""
    return {
        **asdict(context),
        "is_chosen": fit.is_chosen,
        "is_finished": fit.is_finished,
        "num_evaluations": fit.num_evaluations,
        "fitted": {
            "weights": dict(zip(REGION_LABELS, fit.fitted.weights, strict=True)),
            "template_weight": fit.fitted.template_weight,
            "prior_weight": fit.fitted.prior_weight,
        },
        "ratio": {
            side: {
                name: asdict(fit.ratio(is_test=is_test, name=f"kl_{name}"))
                for name in ("fitted", "default")
            }
            for side, is_test in (("fit", False), ("test", True))
        },
        "moments": [asdict(moment) for moment in fit.moments],
    }


def fit_markdown(fit: Fit, context: FitContext) -> str:
    """Return a fit as a page for people."""
    return "\n".join(
        [
            "# What the regions weigh",
            "",
            f"Fitted for {context.model} with regions from {context.tags}, at "
            f"{context.budget:.1%} of the full cache's bytes. {_verdict(fit)}",
            "",
            *_weights_table(fit),
            "",
            "KL to the full cache over that of the same cache without regions, geometric mean over "
            "traces with its 95 % bootstrap interval; below 1 the regions help.",
            "",
            "| | fitted | nothing fitted |",
            "|---|---|---|",
            *(
                f"| {name} traces | {_shown(fit.ratio(is_test=is_test))} | "
                f"{_shown(fit.ratio(is_test=is_test, name='kl_default'))} |"
                for name, is_test in (("fit", False), ("test", True))
            ),
            "",
            f"Mean KL over the {context.next_tokens} tokens behind each moment, nats a token:",
            "",
            "| trace | | no regions | nothing fitted | fitted |",
            "|---|---|---|---|---|",
            *(_row(moment) for moment in fit.moments),
            "",
        ]
    )


def write_fit_report(out: Path, fit: Fit, context: FitContext) -> Path:
    """Write a fit's report beside the file of its settings; return the page's path.

    Args:
        out: The file of settings: ``x.toml`` gets ``x.report.json`` and ``x.report.md``.
        fit: The fit.
        context: What it was made with.

    Raises:
        StorageError: A file could not be written.
    """
    figures = json.dumps(fit_json(fit, context), indent=2) + "\n"
    write_text_atomically(out.with_suffix(".report.json"), figures)
    page = out.with_suffix(".report.md")
    write_text_atomically(page, fit_markdown(fit, context))
    return page


def _verdict(fit: Fit) -> str:
    tried = f"{fit.num_evaluations} settings were tried"
    ended = tried if fit.is_finished else f"{tried}, then the search was ended"
    if fit.is_chosen:
        return f"{ended}; the best of them was kept, since it lowers the KL on the test traces."
    if fit.has_regions:
        return (
            f"{ended}; on the test traces the best of them is no better than no weights, so the "
            "written settings have none."
        )
    return (
        f"{ended}; on the test traces regions do not lower the KL, so the written settings make "
        "them play no part."
    )


def _weights_table(fit: Fit) -> list[str]:
    values = [
        *zip(REGION_LABELS, fit.fitted.weights, strict=True),
        ("the chat template's tokens", fit.fitted.template_weight),
        ("exponent of the decayed score", fit.fitted.prior_weight or 0.0),
    ]
    return ["| | weight |", "|---|---|", *(f"| {name} | {value:+.2f} |" for name, value in values)]


def _row(moment: MomentResult) -> str:
    name = moment.trace.replace("|", "/")
    side = "test" if moment.is_test else "fit"
    return (
        f"| {name} | {side} | {moment.kl_none:.4f} | {moment.kl_default:.4f} | "
        f"{moment.kl_fitted:.4f} |"
    )


def _shown(interval: Interval) -> str:
    return f"{interval.value:.3f} ({interval.low:.3f} to {interval.high:.3f})"
