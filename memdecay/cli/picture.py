"""The picture of a cache over time."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import cycle
from pathlib import Path
from typing import Any

from memdecay.classifier.errors import ConfigError
from memdecay.classifier.regions import REGION_LABELS
from memdecay.classifier.storage import check_writable, write_atomically
from memdecay.runtime.stats import SessionStats

_COLOURS = ("#8e44ad", "#e6a700", "#2e8b57", "#2c8fbf", "#9aa0a6")
_MEBIBYTE = 1 << 20


def check_picture(path: Path) -> None:
    """Find out early whether a picture can be drawn and written there.

    Raises:
        ConfigError: matplotlib is not installed or does not know the path's ending.
        StorageError: The path can't be written.
    """
    try:
        from matplotlib.backend_bases import FigureCanvasBase
    except ImportError as error:
        raise ConfigError(
            "pictures need matplotlib, which is not installed; run "
            "`pip install 'memdecay[report]'` or leave the picture out"
        ) from error
    if _kind(path) not in FigureCanvasBase.get_supported_filetypes():
        raise ConfigError(f"{path} has an ending that names no picture format; use .png or .svg")
    check_writable(path)


def write_cache_picture(path: Path, sessions: Mapping[str, SessionStats]) -> None:
    """Draw the bytes of some sessions and what the last of them kept, over the tokens seen.

    Args:
        path: The picture to write; its ending names the format (png, svg, pdf).
        sessions: Statistics by policy name, at least one.

    Raises:
        ConfigError: matplotlib is not installed or does not know the ending.
        StorageError: The picture could not be written.
    """
    check_picture(path)
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 6.5), layout="constrained")
    FigureCanvasAgg(figure)
    upper, lower = figure.subplots(2, 1, sharex=True)
    _draw_bytes(upper, sessions)
    name = list(sessions)[-1]
    _draw_regions(lower, name, sessions[name])
    write_atomically(path, lambda temporary: figure.savefig(temporary, format=_kind(path), dpi=130))


def _kind(path: Path) -> str:
    return path.suffix.lstrip(".").lower() or "png"


def _draw_bytes(axes: Any, sessions: Mapping[str, SessionStats]) -> None:
    # Caches of one budget lie on each other: the later ones are dashed so that all can be seen.
    dashes = ("-", "-", (0, (6, 4)), (0, (2, 4)))
    for (name, stats), dash in zip(sessions.items(), cycle(dashes), strict=False):
        seen = [snapshot.tokens_seen for snapshot in stats.history]
        size = [snapshot.kv_bytes / _MEBIBYTE for snapshot in stats.history]
        axes.plot(seen, size, label=name, linewidth=2.5, linestyle=dash)
    axes.set_ylabel("KV cache, MiB")
    axes.set_ylim(bottom=0)
    axes.legend(frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_title("Memory of the cache", loc="left")


def _draw_regions(axes: Any, name: str, stats: SessionStats) -> None:
    seen = [snapshot.tokens_seen for snapshot in stats.history]
    kept = [
        [snapshot.kept_per_region.get(label, 0) for snapshot in stats.history]
        for label in REGION_LABELS
    ]
    axes.stackplot(seen, kept, labels=REGION_LABELS, colors=_COLOURS)
    axes.set_xlabel("tokens seen")
    axes.set_ylabel("tokens kept")
    axes.legend(frameon=False, loc="upper center", bbox_to_anchor=(0.5, -0.16), ncols=5)
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_title(f"What {name} keeps", loc="left")
