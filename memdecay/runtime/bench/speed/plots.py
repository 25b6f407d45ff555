"""Plots of a speed benchmark."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from memdecay.classifier.storage import write_atomically
from memdecay.runtime.bench.speed.contestants import BASELINE
from memdecay.runtime.bench.speed.row import SpeedRow

_FORMATS = ("svg", "png")
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
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError:
        return []
    plots = []
    for name, draw in (("decode", _draw_decode), ("memory", _draw_memory)):
        figure = Figure(figsize=(9, 5), layout="constrained")
        FigureCanvasAgg(figure)
        draw(figure.subplots(), rows)
        for kind in _FORMATS:
            _save(figure, folder / f"{name}.{kind}", kind)
        plots.append(folder / f"{name}.svg")
    return plots


def _save(figure: Any, path: Path, kind: str) -> None:
    write_atomically(path, lambda temporary: figure.savefig(temporary, format=kind, dpi=130))


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
