"""The figures of a cross-validation as Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from memdecay.classifier.regions import REGION_LABELS
from memdecay.training.calibration.resampling import Estimate
from memdecay.training.cross_validation.results import CrossValidation, TaggerFigures


def markdown_report(result: CrossValidation) -> str:
    """Return the tables of a cross-validation with the sentences that they need."""
    tested = sum(fold.traces for fold in result.folds)
    tokens = sum(fold.tokens for fold in result.folds)
    sections = [
        "# Tagging sources never seen in training",
        f"{tokens:,} labelled tokens of {tested} traces, each tagged by a classifier that was "
        f"trained on other sources only ({len(result.folds)} folds). Hidden states: "
        f"{result.llm_name}, layer {result.layer}. In brackets: 95% bootstrap intervals over "
        "traces.",
        _main_table(result),
        "The rules are written by hand and were not fitted here; whoever wrote them may have seen "
        "such traces. The second annotator is measured on the traces that were labelled twice.",
        "## Calibration",
        _calibration_table(result),
        f"Temperature for new sources, fitted to all held-out tokens: {result.temperature:.3f}.",
        "## By source",
        _source_table(result),
        "Macro-F1 of a source counts the regions that occur in it or are tagged in it.",
        "## Folds",
        _fold_table(result),
    ]
    return "\n\n".join(sections) + "\n"


def _main_table(result: CrossValidation) -> str:
    header = ["", "macro-F1", "accuracy", *REGION_LABELS, "traces"]
    return _table(header, (_tagger_row(*item) for item in result.taggers.items()))


def _tagger_row(name: str, figures: TaggerFigures) -> list[str]:
    per_region = figures.metrics.per_region
    return [
        name,
        _with_interval(figures.macro_f1),
        _with_interval(figures.accuracy),
        *(f"{per_region[label]['f1']:.2f}" for label in REGION_LABELS),
        str(figures.num_traces),
    ]


def _calibration_table(result: CrossValidation) -> str:
    rows = ([name, _with_interval(estimate, 3)] for name, estimate in result.calibration.items())
    return _table(["temperature fitted to", "ECE"], rows)


def _source_table(result: CrossValidation) -> str:
    taggers = list(next(iter(result.by_source.values()), {}))
    header = ["source", "tokens", *(f"{name}: macro-F1" for name in taggers), "accuracy"]
    rows = []
    for source, found in result.by_source.items():
        last = found[taggers[-1]]
        scores = (f"{found[name].macro_f1:.2f}" for name in taggers)
        rows.append([source, f"{last.tokens:,}", *scores, f"{last.accuracy:.2f}"])
    return _table(header, rows)


def _fold_table(result: CrossValidation) -> str:
    header = ["held out", "traces", "tokens", "epochs", "temperature"]
    return _table(
        header,
        (
            [
                ", ".join(fold.sources),
                str(fold.traces),
                f"{fold.tokens:,}",
                str(fold.epochs),
                f"{fold.own_temperature:.2f}",
            ]
            for fold in result.folds
        ),
    )


def _with_interval(estimate: Estimate, digits: int = 2) -> str:
    if estimate.low is None or estimate.high is None:
        return f"{estimate.value:.{digits}f}"
    return f"{estimate.value:.{digits}f} ({estimate.low:.{digits}f}-{estimate.high:.{digits}f})"


def _table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)
