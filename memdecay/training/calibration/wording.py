"""Figures in words, the same on the page and in Markdown."""

from __future__ import annotations

import math

from memdecay.training.calibration.report import CalibrationReport, Part
from memdecay.training.calibration.resampling import Estimate

QUANTITIES = {
    "macro_f1": "macro-F1",
    "ece": "calibration error (ECE)",
    "f1": "F1",
    "confidence_gap": "confidence minus accuracy",
}
"""What the watched figures are called."""

_MISSING = "—"


def number(value: float | None, digits: int = 3) -> str:
    """Return a figure with some digits; a dash where it is undefined."""
    return _MISSING if value is None or math.isnan(value) else f"{value:.{digits}f}"


def signed(value: float | None, digits: int = 3) -> str:
    """Return a figure with its sign; a dash where it is undefined."""
    return _MISSING if value is None or math.isnan(value) else f"{value:+.{digits}f}"


def percent(value: float | None) -> str:
    """Return a share as a percentage; a dash where it is undefined."""
    return _MISSING if value is None or math.isnan(value) else f"{value:.1%}"


def count(value: float) -> str:
    """Return a whole number with its thousands apart."""
    return f"{int(value):,}"


def plural(value: int, noun: str) -> str:
    """Return a count with its noun."""
    return f"{value:,} {noun}" if value == 1 else f"{value:,} {noun}s"


def spread(estimate: Estimate, digits: int = 3) -> str:
    """Return the interval of an estimate; empty where it has none."""
    if estimate.low is None or estimate.high is None:
        return ""
    return f"{estimate.low:.{digits}f} to {estimate.high:.{digits}f}"


def with_spread(estimate: Estimate, digits: int = 3) -> str:
    """Return an estimate with its interval in brackets."""
    text, between = number(estimate.value, digits), spread(estimate, digits)
    return f"{text} ({between})" if between else text


def training_notice(report: CalibrationReport) -> str:
    """Say how the measured traces stand to those that the classifier was trained on."""
    evaluation = report.evaluation
    if report.part is Part.SEEN:
        return (
            f"The classifier was trained on all {plural(evaluation.num_traces, 'trace')} given: "
            "every figure here flatters it."
        )
    if report.part is Part.UNSEEN:
        return (
            f"The classifier was trained on {evaluation.num_trained_on} of the "
            f"{plural(evaluation.num_traces, 'trace')} given. They are left out: everything here "
            f"is about the other {report.num_traces}, but for the table that shows both."
        )
    return "The classifier was trained on none of these traces."


def abstain_advice(report: CalibrationReport) -> str:
    """Say from which confidence on tags should be trusted."""
    coverage = report.coverage
    best = coverage.recommended
    target = f"{coverage.target:.0%}"
    if best is None:
        return (
            f"No threshold reaches an accuracy of {target} on these traces: the classifier is "
            "wrong too often even where it is surest."
        )
    if best.threshold == 0 or best.coverage.value >= 1:
        return f"All tags together are right in {target} of cases or more: no need to abstain."
    return (
        f"Trust tags of confidence {best.threshold:.2f} and above: "
        f"{percent(best.accuracy.value)} of them are right, and {percent(best.coverage.value)} of "
        f"all tokens keep a tag. It is the lowest threshold that reaches {target}."
    )


def temperature_note(report: CalibrationReport) -> str:
    """Say what the temperature is and what it would be on these traces."""
    facts = report.classifier
    return (
        f"The classifier divides its logits by {facts.temperature:.3f}. On these traces "
        f"{facts.best_temperature:.3f} would fit best."
    )
