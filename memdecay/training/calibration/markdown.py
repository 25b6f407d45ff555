"""The report as Markdown, for a pull request or a log."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from memdecay.classifier.regions import REGION_LABELS
from memdecay.training.calibration.report import CalibrationReport
from memdecay.training.calibration.section import Section
from memdecay.training.calibration.slices import Slice
from memdecay.training.calibration.verdict.drift import Drift
from memdecay.training.calibration.visible import in_markdown
from memdecay.training.calibration.wording import (
    QUANTITIES,
    abstain_advice,
    count,
    number,
    percent,
    signed,
    spread,
    temperature_note,
    training_notice,
    with_spread,
)


def to_markdown(report: CalibrationReport, sections: Sequence[Section] = ()) -> str:
    """Return a report as Markdown; texts of traces are in the page only."""
    parts = [
        _top(report),
        *([_drift(report.drift)] if report.drift is not None else []),
        _regions(report),
        _confusion(report),
        _calibration(report),
        _spans(report),
        f"## When to abstain\n\n{abstain_advice(report)}",
        _slices("By source", "source", report.sources),
        _slices("By place in the trace", "tokens before", report.positions),
        *([_parts(report)] if report.parts else []),
        *(_section(section) for section in sections),
    ]
    return "\n\n".join(parts) + "\n"


def _top(report: CalibrationReport) -> str:
    verdict, figures = report.verdict, report.figures
    lines = [
        f"# {verdict.title}",
        "",
        *(f"- {reason}" for reason in verdict.reasons),
        "",
        f"**{training_notice(report)}**",
        "",
        f"Classifier {in_markdown(report.classifier.name)} on {report.num_traces} traces, "
        f"{count(report.num_tokens)} tokens: macro-F1 {with_spread(figures.macro_f1)}, accuracy "
        f"{with_spread(figures.accuracy)}, calibration error {with_spread(figures.after.ece)}. "
        "In brackets: 95% intervals over traces.",
    ]
    return "\n".join(lines)


def _drift(drift: Drift) -> str:
    rows = (
        (
            QUANTITIES[change.quantity],
            change.region or "all",
            number(change.before),
            number(change.after),
            signed(change.difference.value),
            spread(change.difference),
            number(change.p_value),
            "drifted" if change.is_drift else "",
        )
        for change in drift.changes
    )
    header = ("figure", "region", "then", "now", "change", "95% interval", "p", "")
    return f"## Against the earlier report\n\n{_table(header, rows)}"


def _regions(report: CalibrationReport) -> str:
    rows = (
        (
            label,
            with_spread(row.precision),
            with_spread(row.recall),
            with_spread(row.f1),
            signed(row.confidence_gap.value),
            count(row.support),
        )
        for label, row in report.figures.per_region.items()
    )
    header = ("region", "precision", "recall", "F1", "confidence - accuracy", "tokens")
    return f"## Regions\n\n{_table(header, rows)}"


def _confusion(report: CalibrationReport) -> str:
    matrix = report.figures.sums.total().confusion
    rows = (
        (label, *(count(cell) for cell in row))
        for label, row in zip(REGION_LABELS, matrix.tolist(), strict=True)
    )
    return f"## Confusion (rows: label)\n\n{_table(('', *REGION_LABELS), rows)}"


def _calibration(report: CalibrationReport) -> str:
    before, after = report.figures.before, report.figures.after
    rows = (
        ("ECE", with_spread(before.ece), with_spread(after.ece)),
        ("class-wise ECE", with_spread(before.classwise_ece), with_spread(after.classwise_ece)),
        ("Brier score", with_spread(before.brier), with_spread(after.brier)),
        ("NLL (nats)", with_spread(before.nll), with_spread(after.nll)),
    )
    header = ("", "before temperature scaling", "after")
    return f"## Calibration\n\n{temperature_note(report)}\n\n{_table(header, rows)}"


def _spans(report: CalibrationReport) -> str:
    rows = (
        (
            name,
            number(score.strict_f1),
            number(score.overlap_f1),
            count(score.num_spans),
            count(score.num_tagged),
        )
        for name, score in report.spans.items()
    )
    header = ("region", "F1, both ends right", "F1, overlapping", "spans", "tagged")
    return f"## Whole spans\n\n{_table(header, rows)}"


def _slices(title: str, what: str, slices: Sequence[Slice]) -> str:
    rows = (
        (
            in_markdown(item.name),
            with_spread(item.accuracy),
            number(item.macro_f1.value),
            number(item.ece.value),
            count(item.num_traces),
            count(item.num_tokens),
        )
        for item in slices
    )
    header = (what, "accuracy", "macro-F1", "ECE", "traces", "tokens")
    return f"## {title}\n\n{_table(header, rows)}"


def _parts(report: CalibrationReport) -> str:
    rows = (
        (
            part.value,
            number(item.metrics.macro_f1),
            percent(item.metrics.accuracy),
            number(item.metrics.ece),
            count(item.num_traces),
            count(item.metrics.tokens),
        )
        for part, item in report.parts.items()
    )
    header = ("traces", "macro-F1", "accuracy", "ECE", "traces", "tokens")
    return f"## Seen in training and not\n\n{_table(header, rows)}"


def _section(section: Section) -> str:
    parts = [f"## {in_markdown(section.title)}", *map(in_markdown, section.paragraphs)]
    if section.table is not None:
        header, *rows = [
            tuple(map(in_markdown, row)) for row in (section.table.header, *section.table.rows)
        ]
        parts.append(_table(header, rows))
    return "\n\n".join(parts)


def _table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    def line(cells: Iterable[str]) -> str:
        return f"| {' | '.join(cells)} |"

    rule = f"|{'---|' * len(header)}"
    return "\n".join([line(header), rule, *map(line, rows)])
