"""Plots of a speed benchmark."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from memdecay.runtime.bench.report.figures import save_figures
from memdecay.runtime.bench.speed.contestants import BASELINE
from memdecay.runtime.bench.speed.row import SpeedRow

_MIB = 2**20


def write_speed_plots(folder: Path, rows: Sequence[SpeedRow]) -> list[Path]:
    """Draw the time of a decode step by tokens seen, and the bytes held over time.

    Args:
        folder: Gets each plot as SVG and PNG.
        rows: The results, at least one.

    Returns:
        The SVG files; none where matplotlib is not installed.

    Raises:
        StorageError: A file could not be written.
    """
    drawings = {
        "decode": partial(_draw_decode, rows=rows),
        "memory": partial(_draw_memory, rows=rows),
    }
    return save_figures(folder, drawings)


def _draw_decode(axes: Any, rows: Sequence[SpeedRow]) -> None:
    for policy in dict.fromkeys(row.policy for row in rows):
        own = [row for row in rows if row.policy == policy]
        is_base = policy == BASELINE
        line = axes.plot(
            [row.seen for row in own],
            [row.decode_ratio for row in own],
            marker="o",
            label=policy,
            color="0.5" if is_base else None,
            linestyle="--" if is_base else "-",
        )[0]
        axes.fill_between(
            [row.seen for row in own],
            [row.decode_ratio_low for row in own],
            [row.decode_ratio_high for row in own],
            color=line.get_color(),
            alpha=0.15,
            linewidth=0,
        )
    seen = sorted({row.seen for row in rows})
    axes.set(xscale="log", xlabel="tokens seen", ylabel=f"time of a decode step / {BASELINE}'s")
    axes.set_xticks(seen, [f"{count:,}" for count in seen])
    axes.minorticks_off()
    axes.set_ylim(bottom=0)
    _finish(axes)


def _draw_memory(axes: Any, rows: Sequence[SpeedRow]) -> None:
    most = max(row.seen for row in rows)
    for row in rows:
        if row.seen == most:
            is_base = row.policy == BASELINE
            axes.plot(
                [tokens for tokens, _ in row.memory],
                [held / _MIB for _, held in row.memory],
                label=row.policy,
                color="0.5" if is_base else None,
                linestyle="--" if is_base else "-",
            )
    axes.set(xlabel="tokens seen", ylabel="keys and values, MiB")
    axes.set_ylim(bottom=0)
    _finish(axes)


def _finish(axes: Any) -> None:
    axes.legend(frameon=False, loc="center left", bbox_to_anchor=(1, 0.5))
    axes.spines[["top", "right"]].set_visible(False)
