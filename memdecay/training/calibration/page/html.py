"""The page: a template filled with a report."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import resources
from typing import Any

from memdecay.classifier.errors import ConfigError
from memdecay.classifier.regions import REGION_LABELS
from memdecay.training.calibration import wording
from memdecay.training.calibration.page import charts
from memdecay.training.calibration.page.drawing import Chart
from memdecay.training.calibration.report import CalibrationReport, Part
from memdecay.training.calibration.section import Section
from memdecay.training.calibration.verdict.verdict import GAP_TOLERANCE
from memdecay.training.calibration.visible import shortened, visible

_TEMPLATE = "report.html.j2"
_MAX_NAME_CHARACTERS = 60


def to_html(report: CalibrationReport, sections: Sequence[Section] = ()) -> str:
    """Return a report as one page that loads nothing and runs no script.

    Everything that comes from traces is escaped, and its control characters are shown as signs.

    Raises:
        ConfigError: jinja2 or matplotlib is not installed.
    """
    environment = _environment()
    trusted = _markup()
    figures = report.figures
    text: str = environment.get_template(_TEMPLATE).render(
        report=report,
        figures=figures,
        sections=sections,
        style=trusted(_read("style.css")),
        regions=REGION_LABELS,
        confusion=_confusion(report),
        is_trained_on=report.part is Part.SEEN,
        is_partly_seen=report.part is Part.UNSEEN,
        tolerance=GAP_TOLERANCE,
        charts={
            "before": trusted(charts.reliability(figures.before, "before", "before scaling")),
            "after": trusted(charts.reliability(figures.after, "after", "after scaling")),
            "coverage": trusted(charts.coverage_chart(report.coverage)),
            "position": trusted(charts.position_chart(report.positions)),
        },
        scores=_scores(report),
        wording=wording,
    )
    return text


def check_page() -> None:
    """Find out early whether a page can be made.

    Raises:
        ConfigError: jinja2 or matplotlib is not installed.
    """
    _environment()
    Chart()


def _environment() -> Any:
    try:
        import jinja2
    except ImportError as error:
        raise ConfigError(
            "the page needs jinja2, which is not installed; run "
            "`pip install 'memdecay[report]'` or give --no-html"
        ) from error
    environment = jinja2.Environment(
        loader=jinja2.FunctionLoader(_read),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "number": wording.number,
        "signed": wording.signed,
        "percent": wording.percent,
        "count": wording.count,
        "spread": wording.spread,
        "name": lambda text: shortened(visible(text), _MAX_NAME_CHARACTERS),
        "visible": visible,
        "trusted": _markup(),
    }
    return environment


def _markup() -> Any:
    from markupsafe import Markup

    return Markup


def _read(name: str) -> str:
    return resources.files(__package__).joinpath(name).read_text(encoding="utf-8")


def _confusion(report: CalibrationReport) -> list[dict[str, Any]]:
    matrix = report.figures.sums.total().confusion
    rows = []
    for index, (label, row) in enumerate(zip(REGION_LABELS, matrix.tolist(), strict=True)):
        total = max(sum(row), 1)
        cells = [
            {"count": int(cell), "share": cell / total, "is_hit": column == index}
            for column, cell in enumerate(row)
        ]
        rows.append({"label": label, "cells": cells})
    return rows


def _scores(report: CalibrationReport) -> list[dict[str, Any]]:
    before, after = report.figures.before, report.figures.after
    texts = (
        ("ece", "ECE", "how far confidence and accuracy lie apart, on average"),
        ("classwise_ece", "class-wise ECE", "the same for each region's own probability"),
        ("brier", "Brier score", "squared error of the probabilities, 0 to 2"),
        ("nll", "NLL", "how surprised the classifier is by the truth, nats a token"),
    )
    return [
        {"name": name, "text": text, "before": getattr(before, key), "after": getattr(after, key)}
        for key, name, text in texts
    ]
