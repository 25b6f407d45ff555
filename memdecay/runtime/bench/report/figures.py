"""Saving a benchmark's plots."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from memdecay.classifier.storage import write_atomically

_FORMATS = ("svg", "png")


def save_figures(folder: Path, drawings: Mapping[str, Callable[[Any], None]]) -> list[Path]:
    """Draw and save plots.

    Args:
        folder: Gets each plot as SVG and PNG.
        drawings: What to draw on a figure's axes, by the name of the file.

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
    for name, draw in drawings.items():
        figure = Figure(figsize=(9, 5), layout="constrained")
        FigureCanvasAgg(figure)
        draw(figure.subplots())
        for kind in _FORMATS:
            _save(figure, folder / f"{name}.{kind}", kind)
        plots.append(folder / f"{name}.svg")
    return plots


def _save(figure: Any, path: Path, kind: str) -> None:
    write_atomically(path, lambda temporary: figure.savefig(temporary, format=kind, dpi=130))
