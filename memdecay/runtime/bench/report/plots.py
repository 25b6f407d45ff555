"""Plots of a quality benchmark."""

from __future__ import annotations

import math
from functools import partial
from pathlib import Path
from typing import Any

from memdecay.classifier.regions import REGION_LABELS
from memdecay.runtime.bench.report.figures import save_figures
from memdecay.runtime.bench.report.statistics import geometric_mean
from memdecay.runtime.bench.report.table import ResultTable


def write_plots(folder: Path, table: ResultTable) -> list[Path]:
    """Draw divergence over memory, and retention by region at the smallest budget.

    Args:
        folder: Gets each plot as SVG and PNG.
        table: The results.

    Returns:
        The SVG files; none where matplotlib is not installed, or nothing has a budget.

    Raises:
        StorageError: A file could not be written.
    """
    if not table.budgets:
        return []
    drawings = {
        "kl": partial(_draw_divergence, table=table),
        "retention": partial(_draw_retention, table=table),
    }
    return save_figures(folder, drawings)


def _draw_divergence(axes: Any, table: ResultTable) -> None:
    for policy in table.evicting:
        points = [
            (100 * budget, geometric_mean(table.values(policy, budget, "kl")))
            for budget in table.budgets
        ]
        points = [(share, kl) for share, kl in points if math.isfinite(kl)]
        if points:
            is_ours = policy.startswith("memdecay")
            axes.plot(
                *zip(*points, strict=True),
                marker="o",
                label=policy,
                linewidth=2.5 if is_ours else 1.2,
                linestyle="-" if is_ours else "--",
            )
    axes.set(xscale="log", yscale="log", xlabel="KV bytes, % of the full cache")
    axes.set_ylabel("KL to the full cache, geometric mean over traces")
    ticks = [100 * budget for budget in table.budgets]
    axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.minorticks_off()
    axes.legend(frameon=False, loc="center left", bbox_to_anchor=(1, 0.5))
    axes.spines[["top", "right"]].set_visible(False)


def _draw_retention(axes: Any, table: ResultTable) -> None:
    budget = table.budgets[0]
    policies = [policy for policy in table.evicting if table.rows(policy, budget)]
    width = 0.8 / max(1, len(policies))
    for i, policy in enumerate(policies):
        kept = [table.retention(policy, budget, label).value for label in REGION_LABELS]
        places = [j + (i - (len(policies) - 1) / 2) * width for j in range(len(kept))]
        heights = [0.0 if math.isnan(value) else value for value in kept]
        axes.bar(places, heights, width, label=policy)
    axes.set_xticks(
        range(len(REGION_LABELS)), [label.replace("_", "\n") for label in REGION_LABELS]
    )
    axes.set_ylabel("share of the full cache's benefit kept")
    axes.set_title(f"Recalling spans at {budget:.1%} of the bytes", loc="left")
    axes.axhline(1.0, color="0.7", linewidth=0.8)
    axes.legend(frameon=False, loc="center left", bbox_to_anchor=(1, 0.5))
    axes.spines[["top", "right"]].set_visible(False)
