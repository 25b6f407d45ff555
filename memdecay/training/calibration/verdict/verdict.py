"""The one sentence on top of a report, and why."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from memdecay.classifier.regions import REGION_LABELS
from memdecay.training.calibration.verdict.drift import PAIRED, Change, Drift
from memdecay.training.calibration.verdict.gaps import OVERALL, GapTest

GAP_TOLERANCE = 0.05
"""How far mean confidence and accuracy may lie apart."""

_TOO_FEW = "No verdict: too few traces"


class Status(StrEnum):
    """How a check ended."""

    CALIBRATED = "calibrated"
    MISCALIBRATED = "miscalibrated"
    DRIFTED = "drifted"
    UNPROVEN = "unproven"


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the figures amount to.

    Attributes:
        status: How the check ended.
        title: The same in a few words.
        reasons: Why, in sentences.
    """

    status: Status
    title: str
    reasons: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return the verdict as plain data for JSON."""
        return {
            "status": self.status.value,
            "title": self.title,
            "reasons": list(self.reasons),
        }


def judge(gaps: tuple[GapTest, ...], drift: Drift | None, *, is_trained_on: bool) -> Verdict:
    """Draw the conclusion from the tests.

    Args:
        gaps: Confidence against accuracy.
        drift: The comparison with an earlier report, if there is one.
        is_trained_on: Whether the classifier was trained on every trace that was measured.
    """
    if drift is not None and drift.drifted:
        names = dict.fromkeys(change.region or "overall" for change in drift.drifted)
        return Verdict(
            Status.DRIFTED,
            f"Drifted: {', '.join(names)}",
            tuple(_drift_reason(change, drift) for change in drift.drifted),
        )
    no_change = () if drift is None else (_no_change(drift),)
    if is_trained_on:
        reason = (
            "The classifier was trained on every one of these traces, so that the figures show "
            "what it remembers, not how good it is; give traces that it has not seen."
        )
        return Verdict(Status.UNPROVEN, "No verdict: all traces were trained on", (reason,))
    off = [gap for gap in gaps if gap.is_off]
    if off:
        title = f"Miscalibrated: {', '.join(gap.name for gap in off)}"
        return Verdict(Status.MISCALIBRATED, title, (*map(_gap_reason, off), *no_change))
    if all(gap.p_value is None for gap in gaps):
        reason = "Three traces with the same region are the least from which a check can conclude."
        return Verdict(Status.UNPROVEN, _TOO_FEW, (reason, *no_change))
    overall = next(gap for gap in gaps if gap.name == OVERALL)
    # That a gap may be chance does not make it small.
    if abs(overall.gap) > GAP_TOLERANCE:
        return Verdict(Status.UNPROVEN, _TOO_FEW, (_gap_open(overall), *no_change))
    return Verdict(Status.CALIBRATED, "Calibrated", (_gaps_fine(gaps), *no_change))


def _gap_open(overall: GapTest) -> str:
    return (
        f"Over all tokens, confidence and accuracy lie {_points(overall.gap)} points apart, which "
        f"is more than {GAP_TOLERANCE * 100:.0f}, but so few traces may show that by chance alone; "
        "label more of them."
    )


def _gaps_fine(gaps: tuple[GapTest, ...]) -> str:
    overall = next(gap for gap in gaps if gap.name == OVERALL)
    open_gaps = [
        f"{gap.name} ({_points(gap.gap)})"
        for gap in gaps
        if gap.p_value is not None and abs(gap.gap) > GAP_TOLERANCE
    ]
    untested = [gap.name for gap in gaps if gap.p_value is None]
    text = (
        f"Over all tokens, confidence and accuracy lie {_points(overall.gap)} points apart; in no "
        f"region more than {GAP_TOLERANCE * 100:.0f}, beyond what chance explains."
    )
    if open_gaps:
        text += (
            f" Further apart, but perhaps by chance, so that more traces would tell: "
            f"{', '.join(open_gaps)}."
        )
    if untested:
        text += f" Not tested, for want of traces: {', '.join(untested)}."
    return text


def _points(gap: float) -> str:
    return f"{gap * 100:+.0f}"


def _gap_reason(gap: GapTest) -> str:
    where = "Over all tokens" if gap.name == OVERALL else f"Where it tags {gap.name}"
    what = "surer than it is right" if gap.gap > 0 else "less sure than it is right"
    return (
        f"{where}, the classifier is {abs(gap.gap) * 100:.0f} points {what} "
        f"({_p(gap.p_value)} for more than {GAP_TOLERANCE * 100:.0f} points)."
    )


def _no_change(drift: Drift) -> str:
    compared = "the same" if drift.method == PAIRED else str(drift.num_baseline)
    text = f"No drift against {compared} traces of the earlier report."
    macro = drift.changes[0]
    if macro.detectable is not None:
        text += (
            f" With {drift.num_traces} {_plural(drift.num_traces, 'trace')} a drop of macro-F1 "
            f"by less than {macro.detectable:.2f} would not have been noticed."
        )
    return text


def _plural(count: int, noun: str) -> str:
    return noun if count == 1 else f"{noun}s"


def _p(p_value: float | None) -> str:
    if p_value is None:
        return "not tested"
    return "p < 0.001" if p_value < 0.001 else f"p = {p_value:.3f}"


def _drift_reason(change: Change, drift: Drift) -> str:
    low, high = change.difference.low, change.difference.high
    span = "" if low is None or high is None else f", 95% interval {low:+.2f} to {high:+.2f}"
    evidence = f"({change.difference.value:+.2f}{span}; {_p(change.p_value)})"
    if change.quantity == "ece":
        return (
            f"The calibration error rose from {change.before:.3f} to {change.after:.3f} {evidence}."
        )
    if change.region is None:
        return f"Macro-F1 fell from {change.before:.2f} to {change.after:.2f} {evidence}."
    if change.quantity == "confidence_gap":
        return (
            f"{change.region}: confidence minus accuracy went from {change.before:+.2f} to "
            f"{change.after:+.2f} {evidence}."
        )
    fell = f"{change.region}: F1 fell from {change.before:.2f} to {change.after:.2f} {evidence}"
    return f"{fell}; {_where_it_went(change.region, drift)}."


def _where_it_went(region: str, drift: Drift) -> str:
    """Name the confusion that grew most around a region."""
    index = REGION_LABELS.index(region)
    rows = [_shares(drift.before[index]), _shares(drift.after[index])]
    columns = [_shares(drift.before[:, index]), _shares(drift.after[:, index])]
    growths = []
    for then, now in (rows, columns):
        growth = now - then
        growth[index] = -np.inf
        growths.append(growth)
    is_missed = growths[0].max() >= growths[1].max()
    then, now = rows if is_missed else columns
    other = int(growths[0 if is_missed else 1].argmax())
    shares = f"{then[other]:.0%} → {now[other]:.0%}"
    if is_missed:
        return f"more of its tokens are taken for {REGION_LABELS[other]} ({shares})"
    return f"more of what is tagged so is {REGION_LABELS[other]} ({shares})"


def _shares(counts: NDArray[np.float64]) -> NDArray[np.float64]:
    shares: NDArray[np.float64] = counts / max(counts.sum(), 1.0)
    return shares
