"""An earlier report, read back for a comparison."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from memdecay.classifier.errors import ConfigError
from memdecay.classifier.regions import NUM_REGIONS, REGION_LABELS
from memdecay.training.calibration.sums import NUM_SLOTS, Sums, TraceSums
from memdecay.training.calibration.verdict.drift import TraceRows

REPORT_FORMAT = 1
JSON_FILE = "report.json"
_DIGITS = 6


@dataclass(frozen=True, slots=True)
class Baseline:
    """What a comparison needs of an earlier report.

    Attributes:
        created: When it was made.
        classifier: Name of the classifier that it measured.
        digest: SHA-256 of that classifier's graph.
        rows: What each of its traces adds to the figures.
    """

    created: str
    classifier: str
    digest: str
    rows: TraceRows


def rows_to_data(rows: TraceRows, sources: Sequence[str]) -> list[dict[str, Any]]:
    """Return what each trace adds as plain data for JSON."""
    sums = rows.sums
    return [
        {
            "digest": digest,
            "source": source,
            "confusion": sums.confusion[row].astype(int).ravel().tolist(),
            "slots": np.round(sums.slots[row], _DIGITS).ravel().tolist(),
            "tagged_confidence": np.round(sums.tagged_confidence[row], _DIGITS).tolist(),
            "nll": round(float(sums.nll[row]), _DIGITS),
            "brier": round(float(sums.brier[row]), _DIGITS),
        }
        for row, (digest, source) in enumerate(zip(rows.digests, sources, strict=True))
    ]


def read_baseline(path: Path) -> Baseline:
    """Read an earlier report, given as its JSON file or its folder.

    Raises:
        ConfigError: There is no report, or it cannot be compared with.
    """
    path = path / JSON_FILE if path.is_dir() else path
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise ConfigError(
            f"{path} does not exist; give the folder of an earlier report to --baseline"
        ) from error
    except (OSError, ValueError, RecursionError) as error:
        raise ConfigError(
            f"{path} cannot be read as JSON ({error}); give an earlier report to --baseline"
        ) from error
    _check_format(data, path)
    try:
        return _baseline(data)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise ConfigError(
            f"{path} is damaged ({type(error).__name__}: {error}); make the earlier report again"
        ) from error


def _check_format(data: Any, path: Path) -> None:
    if not isinstance(data, dict) or "per_trace" not in data:
        raise ConfigError(
            f"{path} is no calibration report (it has no 'per_trace'); give the report.json that "
            "`memdecay calibrate` wrote"
        )
    if data.get("format_version") != REPORT_FORMAT:
        raise ConfigError(
            f"{path} has format_version {data.get('format_version')!r}, expected {REPORT_FORMAT}; "
            "make the earlier report again with this memdecay"
        )
    if data.get("regions") != list(REGION_LABELS):
        raise ConfigError(
            f"{path} lists the regions {data.get('regions')}, expected {list(REGION_LABELS)}; "
            "make the earlier report again with this memdecay"
        )


def _baseline(data: Mapping[str, Any]) -> Baseline:
    traces = data["per_trace"]
    if not traces:
        raise ValueError("it holds no traces")
    count = len(traces)

    def column(name: str, *shape: int) -> Sums:
        values = np.array([trace[name] for trace in traces], np.float64)
        if not np.isfinite(values).all():
            raise ValueError(f"{name} holds a value that is no number")
        return values.reshape(count, *shape)

    sums = TraceSums(
        confusion=column("confusion", NUM_REGIONS, NUM_REGIONS),
        slots=column("slots", NUM_SLOTS, 3),
        tagged_confidence=column("tagged_confidence", NUM_REGIONS),
        nll=column("nll"),
        brier=column("brier"),
    )
    classifier = data["classifier"]
    return Baseline(
        created=str(data["created"]),
        classifier=str(classifier["name"]),
        digest=str(classifier["digest"]),
        rows=TraceRows(tuple(str(trace["digest"]) for trace in traces), sums),
    )
