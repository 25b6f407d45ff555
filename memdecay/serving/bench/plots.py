"""Plots of a serving benchmark."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from memdecay.runtime.bench.report.figures import save_figures
from memdecay.serving.bench.figures import ServerFigures

_LEAST_BARS = 3


def write_serving_plots(
    folder: Path, whole: Sequence[ServerFigures], common: Sequence[ServerFigures]
) -> list[Path]:
    """Draw the time to the first text by round, and the total times.

    Args:
        folder: Gets each plot as SVG and PNG.
        whole: The contestants' figures over all rounds that each has done.
        common: Those over the rounds that all have done.

    Returns:
        The SVG files; none where matplotlib is not installed.

    Raises:
        StorageError: A file could not be written.
    """
    drawings = {
        "first_token": partial(_draw_first_token, figures=whole),
        "total": partial(_draw_total, figures=common),
    }
    return save_figures(folder, drawings)


def _draw_first_token(axes: Any, figures: Sequence[ServerFigures]) -> None:
    for figure in figures:
        rounds = [times.round for times in figure.by_round]
        medians = [times.first_token_s for times in figure.by_round]
        slowest = [times.first_token_p95_s for times in figure.by_round]
        line = axes.plot(rounds, medians, label=figure.name)[0]
        axes.fill_between(rounds, medians, slowest, color=line.get_color(), alpha=0.15, linewidth=0)
    axes.set(yscale="log", xlabel="round", ylabel="seconds to the first text, median to P95")
    axes.xaxis.get_major_locator().set_params(integer=True)
    # 0.1, 0.2, 0.5, ... in plain numbers, not powers of ten.
    axes.yaxis.get_major_locator().set_params(subs=(1, 2, 5))
    axes.yaxis.set_major_formatter("{x:g}")
    axes.yaxis.set_minor_formatter("")
    axes.legend(frameon=False, loc="center left", bbox_to_anchor=(1, 0.5))
    axes.spines[["top", "right"]].set_visible(False)


def _draw_total(axes: Any, figures: Sequence[ServerFigures]) -> None:
    names = [figure.name for figure in figures]
    bars = axes.barh(names, [figure.total_s for figure in figures], color="0.6")
    axes.bar_label(bars, [f"{figure.total_s:,.0f} s" for figure in figures], padding=4)
    # The first on top, and few bars no wider than many.
    axes.set_ylim(max(len(names), _LEAST_BARS) - 0.5, -0.5)
    axes.set_xlabel(f"seconds for {figures[0].num_rounds} rounds of each agent")
    axes.spines[["top", "right"]].set_visible(False)
