"""The charts of the report's own parts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from memdecay.training.calibration.coverage import Coverage
from memdecay.training.calibration.figures import CalibrationFigures
from memdecay.training.calibration.page.drawing import (
    ACCENT,
    INK,
    MUTED,
    SECOND,
    SURFACE,
    Chart,
    to_svg,
)
from memdecay.training.calibration.resampling import Estimate
from memdecay.training.calibration.slices import Slice
from memdecay.training.calibration.sums import CONFIDENCE, COUNT, HITS, NUM_BINS

_PERCENT = "{x:.0%}"


def reliability(figures: CalibrationFigures, name: str, what: str) -> str:
    """Draw accuracy over confidence, with the share of tokens in each bin below.

    Args:
        figures: The figures of one side of temperature scaling.
        name: The chart's word.
        what: Which side it is, for the description.
    """
    slots = figures.bins[:NUM_BINS].copy()
    slots[-1] += figures.bins[NUM_BINS:].sum(axis=0)
    held = slots[:, COUNT] > 0
    confidence = slots[held, CONFIDENCE] / slots[held, COUNT]
    accuracy = slots[held, HITS] / slots[held, COUNT]
    shares = slots[:, COUNT] / slots[:, COUNT].sum()
    centres = (np.arange(NUM_BINS) + 0.5) / NUM_BINS
    with Chart(4.2, 4.4) as figure:
        upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=(4, 1))
        upper.plot([0, 1], [0, 1], color=MUTED, linewidth=1.2, linestyle=(0, (4, 4)))
        upper.vlines(confidence, confidence, accuracy, color=SECOND, linewidth=5, alpha=0.45)
        upper.plot(confidence, accuracy, color=ACCENT, marker="o", markersize=5.5, clip_on=False)
        _percent_axes(upper, xlabel=None, ylabel="tags that are right")
        upper.set_xlim(0, 1)
        upper.set_ylim(0, 1)
        upper.text(0.05, 0.9, f"ECE {figures.ece.value:.3f}", color=INK, fontsize=13, weight="bold")
        lower.bar(centres, shares, width=0.85 / NUM_BINS, color=ACCENT, alpha=0.55)
        _percent_axes(lower, xlabel="confidence of the tag", ylabel="tokens")
        lower.grid(visible=False)
        description = (
            f"Reliability diagram {what}: accuracy over confidence in {int(held.sum())} bins, "
            f"expected calibration error {figures.ece.value:.3f}"
        )
        return to_svg(figure, name, description)


def coverage_chart(coverage: Coverage) -> str:
    """Draw accuracy and coverage over the threshold of confidence."""
    points = coverage.points
    thresholds = [point.threshold for point in points]
    with Chart(7.2, 3.3) as figure:
        axes = figure.subplots()
        shares = [point.coverage.value for point in points]
        axes.plot(thresholds, shares, color=SECOND, linestyle=(0, (5, 3)))
        accuracies = [point.accuracy for point in points]
        _band(axes, thresholds, accuracies)
        axes.plot(thresholds, [item.value for item in accuracies], color=ACCENT)
        axes.axhline(coverage.target, color=MUTED, linewidth=1, linestyle=(0, (2, 3)))
        axes.text(0.005, coverage.target, f" wanted: {coverage.target:.0%}", **_note(MUTED))
        _name_line(axes, thresholds, [item.value for item in accuracies], "right", ACCENT)
        _name_line(axes, thresholds, shares, "still tagged", SECOND)
        if coverage.recommended is not None:
            _mark(axes, coverage.recommended.threshold, coverage.recommended.accuracy.value)
        _percent_axes(axes, xlabel="least confidence that is trusted", ylabel="share of tokens")
        axes.xaxis.set_major_formatter("{x:.1f}")
        axes.set_xlim(0, 1)
        axes.set_ylim(0, 1.05)
        return to_svg(figure, "coverage", "Accuracy and coverage over the confidence threshold")


def position_chart(slices: Sequence[Slice]) -> str:
    """Draw accuracy by the place in the trace."""
    with Chart(7.2, 3.0) as figure:
        axes = figure.subplots()
        for index, item in enumerate(slices):
            low, high = item.accuracy.low, item.accuracy.high
            if low is not None and high is not None:
                axes.vlines(index, low, high, color=ACCENT, linewidth=6, alpha=0.3)
        values = [item.accuracy.value for item in slices]
        axes.plot(range(len(values)), values, color=ACCENT, marker="o", markersize=6)
        _percent_axes(axes, xlabel="tokens before it in the trace", ylabel="tags that are right")
        axes.xaxis.set_major_formatter("{x:.0f}")
        labels = [item.name.replace(" to ", "\nto ") for item in slices]
        axes.set_xticks(range(len(labels)), labels, fontsize=8.5)
        axes.set_ylim(top=1)
        return to_svg(figure, "position", "Accuracy by the place in the trace")


def _percent_axes(axes: Any, *, xlabel: str | None, ylabel: str) -> None:
    axes.yaxis.set_major_formatter(_PERCENT)
    axes.xaxis.set_major_formatter(_PERCENT)
    axes.set_ylabel(ylabel)
    if xlabel is not None:
        axes.set_xlabel(xlabel)
    axes.tick_params(length=0)


def _band(axes: Any, places: Sequence[float], estimates: Sequence[Estimate]) -> None:
    known = [
        (place, item.low, item.high)
        for place, item in zip(places, estimates, strict=True)
        if item.low is not None
    ]
    if known:
        axes.fill_between(*zip(*known, strict=True), color=ACCENT, alpha=0.18, linewidth=0)


def _name_line(
    axes: Any, places: Sequence[float], values: Sequence[float], text: str, colour: str
) -> None:
    middle = len(places) // 3
    place = (places[middle], values[middle])
    axes.annotate(text, place, xytext=(0, 7), textcoords="offset points", **_note(colour))


def _mark(axes: Any, threshold: float, accuracy: float) -> None:
    axes.axvline(threshold, color=INK, linewidth=1)
    axes.plot(threshold, accuracy, "o", color=SURFACE, markeredgecolor=INK, markersize=8)
    side = (-7, "right") if threshold > 0.5 else (7, "left")
    axes.annotate(
        f"trust from {threshold:.2f}",
        (threshold, 0.04),
        xytext=(side[0], 0),
        textcoords="offset points",
        ha=side[1],
        color=INK,
        weight="bold",
    )


def _note(colour: str) -> dict[str, Any]:
    return {"color": colour, "fontsize": 10, "va": "bottom"}
