"""Decay calibration as a section of a calibration report."""

from __future__ import annotations

import math
from collections.abc import Callable

from memdecay.classifier.regions import Region
from memdecay.training.calibration.resampling import Estimate
from memdecay.training.calibration.section import Section, Table
from memdecay.training.decay.chart import survival_chart
from memdecay.training.decay.fit import RegionFit
from memdecay.training.decay.report import DecayReport

DECAY_KEY = "decay"
ALL_REGIONS = "all regions"


def decay_section(report: DecayReport, *, with_chart: bool = True) -> Section:
    """Return the curves, the fits and what they mean.

    Args:
        report: What was measured.
        with_chart: Whether to draw the curves, which needs matplotlib.

    Raises:
        ConfigError: matplotlib is not installed.
        TraceError: The tokens of all regions together were seen too little for a fit.
    """
    charts: tuple[str, ...] = ()
    if with_chart:
        charts = (survival_chart(report.curves, report.fits, report.config.min_age),)
    return Section(
        key=DECAY_KEY,
        title="How the regions fade",
        paragraphs=_paragraphs(report),
        charts=charts,
        table=Table(
            header=(
                "region",
                "tokens",
                "traces",
                "initial score",
                "decay per token",
                "half-life, tokens",
                "survival, tokens",
                "R²",
            ),
            rows=_rows(report),
        ),
        data=report.to_dict(),
    )


def _paragraphs(report: DecayReport) -> tuple[str, ...]:
    config = report.config
    cut = f", {report.num_cut} of them cut to {config.max_tokens} tokens" if report.num_cut else ""
    intervals = (
        "Bands and brackets are 95% intervals over traces."
        if report.num_traces > 1
        else "One trace gives no intervals."
    )
    return (
        f"{report.model} read {report.num_traces} traces{cut} with nothing evicted. The curves "
        "show the attention that a region's tokens get from a token that comes so much later: 1 is "
        "what they would get if it looked at all tokens before it alike. "
        f"Template tokens and sinks are left out. {intervals}",
        "Dashed is the fit of initial score · exp(-decay · age) to the ages from "
        f"{config.min_age} tokens on: nearer text is read rather than remembered. Initial scores "
        "are scaled so that the lowest is 1, which stands for an attention of "
        f"{report.unit:.3g}. A region survives until its attention, which is not scaled, is below "
        f"{config.threshold:g}: after ln(initial attention / threshold) / decay tokens. R² says "
        "how much of a curve's course the fit has; a low one means that the region does not fade "
        f"like that. A region that was seen too little gets the scores of {ALL_REGIONS}.",
    )


def _rows(report: DecayReport) -> tuple[tuple[str, ...], ...]:
    curves, pooled = report.curves, report.pooled
    rows = [
        _row(report, region.label, int(num_tokens), str(num_traces), fit)
        for region, num_tokens, num_traces, fit in zip(
            Region, curves.num_tokens, curves.num_traces, report.fits, strict=True
        )
    ]
    num_tokens = int(curves.num_tokens.sum())
    return (*rows, _row(report, ALL_REGIONS, num_tokens, str(report.num_traces), pooled))


def _row(
    report: DecayReport, name: str, num_tokens: int, num_traces: str, fit: RegionFit | None
) -> tuple[str, ...]:
    counts = (name, f"{num_tokens:,}", num_traces)
    if fit is None:
        return (*counts, f"too little: as {ALL_REGIONS}", "", "", "", "")
    return (
        *counts,
        _shown(_mapped(fit.score, lambda lift: lift / report.unit), ".2f"),
        _shown(fit.decay, ".2g"),
        _shown(_mapped(fit.decay, _half_life), ",.0f"),
        _shown(fit.survival_tokens, ",.0f"),
        f"{fit.r_squared:.2f}",
    )


def _half_life(decay: float) -> float:
    return math.log(2) / decay if decay > 0 else math.inf


def _mapped(estimate: Estimate, change: Callable[[float], float]) -> Estimate:
    """Return another figure that rises or falls with this one all along."""
    value = change(estimate.value)
    if estimate.low is None or estimate.high is None:
        return Estimate(value)
    low, high = sorted((change(estimate.low), change(estimate.high)))
    return Estimate(value, low, high)


def _shown(estimate: Estimate, form: str) -> str:
    def text(value: float) -> str:
        return "∞" if math.isinf(value) else format(value, form)

    if estimate.low is None or estimate.high is None:
        return text(estimate.value)
    return f"{text(estimate.value)} [{text(estimate.low)}, {text(estimate.high)}]"
