"""The picture of the survival curves."""

from __future__ import annotations

import math

import numpy as np

from memdecay.classifier.regions import REGION_LABELS, Region
from memdecay.training.calibration.page.drawing import MUTED, Chart, to_svg
from memdecay.training.decay.fit import RegionFit
from memdecay.training.decay.survival import SurvivalCurves

# The page names its colours of regions after them; these stand for the names while drawing.
_COLOURS = {region: f"#0a0a{region + 1:02d}" for region in Region}


def survival_chart(curves: SurvivalCurves, fits: tuple[RegionFit | None, ...], min_age: int) -> str:
    """Draw every region's curve with its interval, and the fit over it as a dashed line.

    Both axes are logarithmic.

    Args:
        curves: The curves.
        fits: Each region's fit, in the order of `Region`.
        min_age: Where the fits begin.

    Returns:
        SVG whose colours the page around it sets.

    Raises:
        ConfigError: matplotlib is not installed.
    """
    ages = curves.buckets.centres
    bands = curves.bands()
    with Chart(9.0, 4.6) as figure:
        axes = figure.subplots()
        for region, fit in zip(Region, fits, strict=True):
            known = ~np.isnan(curves.lifts[region])
            if not known.any():
                continue
            colour = _COLOURS[region]
            axes.plot(ages[known], curves.lifts[region][known], color=colour, label=region.label)
            if bands is not None:
                low, high = (band[region][known] for band in bands)
                axes.fill_between(ages[known], low, high, color=colour, alpha=0.15, linewidth=0)
            if fit is not None:
                fitted = ages[known & (ages >= min_age)]
                line = fit.score.value * np.exp(-fit.decay.value * fitted)
                axes.plot(fitted, line, color=colour, linestyle=(0, (3, 3)), linewidth=1.5)
        axes.axhline(1.0, color=MUTED, linewidth=1)
        axes.set_xscale("log", base=2)
        axes.set_yscale("log")
        axes.xaxis.set_major_formatter("{x:.0f}")
        axes.yaxis.set_major_formatter("{x:g}")
        axes.set_xlabel("age, tokens")
        axes.set_ylabel("attention received (1: as if all were alike)")
        axes.legend(frameon=False, loc="upper right")
        svg = to_svg(figure, "survival", _description(curves))
    for region, colour in _COLOURS.items():
        svg = svg.replace(colour, f"var(--{region.label})")
    return svg


def _description(curves: SurvivalCurves) -> str:
    oldest = []
    for label, lifts in zip(REGION_LABELS, curves.lifts.tolist(), strict=True):
        known = [
            (age, lift)
            for age, lift in zip(curves.buckets.centres.tolist(), lifts, strict=True)
            if not math.isnan(lift)
        ]
        if known:
            oldest.append(f"{label} {known[-1][1]:.2g} at age {known[-1][0]:.0f}")
    return f"Attention received by region and age; {', '.join(oldest)}"
