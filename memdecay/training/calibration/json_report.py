"""The report for machines."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from memdecay import __version__
from memdecay.classifier.regions import REGION_LABELS
from memdecay.training.calibration.baseline import REPORT_FORMAT, rows_to_data
from memdecay.training.calibration.coverage import Coverage, CoveragePoint
from memdecay.training.calibration.report import CalibrationReport, Part
from memdecay.training.calibration.resampling import LEVEL
from memdecay.training.calibration.section import Section
from memdecay.training.calibration.slices import Slice
from memdecay.training.calibration.verdict.drift import Drift


def to_json(report: CalibrationReport, sections: Sequence[Section] = ()) -> str:
    """Return a report as JSON text; figures that are undefined are null."""
    data = _plain(report_data(report, sections))
    # One line a trace: the numbers in it are for machines.
    traces = ",\n    ".join(
        json.dumps(row) for row in rows_to_data(report.rows, report.trace_sources)
    )
    head = json.dumps(data, indent=2, allow_nan=False).removesuffix("\n}")
    return f'{head},\n  "per_trace": [\n    {traces}\n  ]\n}}\n'


def report_data(report: CalibrationReport, sections: Sequence[Section] = ()) -> dict[str, Any]:
    """Return a report as plain data, without its rows of traces.

    The keys of `memdecay evaluate --json` stand first and mean the same.
    """
    parts = {part.value: item.to_dict() for part, item in report.parts.items()}
    drift = report.drift
    return report.evaluation.to_dict() | {
        "format_version": REPORT_FORMAT,
        "memdecay_version": __version__,
        "created": report.created,
        "regions": list(REGION_LABELS),
        "classifier": asdict(report.classifier),
        "verdict": report.verdict.to_dict(),
        "measured": {
            "part": report.part.value,
            "is_trained_on": report.part is Part.SEEN,
            "traces": report.num_traces,
            "tokens": report.num_tokens,
        },
        "unseen": parts.get(Part.UNSEEN.value),
        "seen": parts.get(Part.SEEN.value),
        "intervals": _intervals(report),
        "calibration": {
            "before_temperature": report.figures.before.to_dict(),
            "after_temperature": report.figures.after.to_dict(),
            "confidence_gaps": [asdict(gap) for gap in report.gaps],
        },
        "spans": {name: asdict(score) for name, score in report.spans.items()},
        "abstain": _abstain(report.coverage),
        "by_source": [_slice(item) for item in report.sources],
        "by_position": [_slice(item) for item in report.positions],
        "worst_spans": [span.to_dict() for span in report.worst],
        "baseline": None if report.baseline is None else asdict(report.baseline),
        "drift": None if drift is None else _drift(drift),
        "extensions": {section.key: dict(section.data) for section in sections},
    }


def _intervals(report: CalibrationReport) -> dict[str, Any]:
    figures = report.figures
    return {
        "level": LEVEL,
        "over": "traces",
        "macro_f1": figures.macro_f1.to_dict(),
        "accuracy": figures.accuracy.to_dict(),
        "per_region": {label: asdict(row) for label, row in figures.per_region.items()},
    }


def _abstain(coverage: Coverage) -> dict[str, Any]:
    best = coverage.recommended
    return {
        "target_accuracy": coverage.target,
        "recommended": None if best is None else _point(best),
        "curve": [_point(point) for point in coverage.points],
    }


def _point(point: CoveragePoint) -> dict[str, Any]:
    return asdict(point)


def _slice(item: Slice) -> dict[str, Any]:
    data = asdict(item)
    return {"name": data.pop("name"), "traces": data.pop("num_traces")} | {
        "tokens": data.pop("num_tokens"),
        **data,
    }


def _drift(drift: Drift) -> dict[str, Any]:
    return {
        "test": "permutation test over traces, one-sided, Holm-adjusted",
        "method": drift.method,
        "traces": drift.num_traces,
        "baseline_traces": drift.num_baseline,
        "is_drift": bool(drift.drifted),
        "changes": [asdict(change) for change in drift.changes],
    }


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
