"""Charts as SVG that takes its colours from the page around it."""

from __future__ import annotations

import io
import re
from html import escape
from typing import Any

from memdecay.classifier.errors import ConfigError

INK = "#010101"
"""Text and axes."""
MUTED = "#020202"
"""What stands back."""
GRID = "#030303"
"""Lines behind everything."""
ACCENT = "#040404"
"""What a chart is about."""
SECOND = "#050505"
"""What it is compared with."""
SURFACE = "#060606"
"""The page behind the chart."""

_NAMES = {
    INK: "ink",
    MUTED: "muted",
    GRID: "grid",
    ACCENT: "accent",
    SECOND: "second",
    SURFACE: "surface",
}
_STYLE = {
    "svg.fonttype": "none",
    "svg.hashsalt": "memdecay",
    "font.size": 10,
    "text.color": INK,
    "axes.edgecolor": GRID,
    "axes.labelcolor": MUTED,
    "axes.facecolor": "none",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": GRID,
    "grid.linewidth": 0.7,
    "xtick.color": GRID,
    "ytick.color": GRID,
    "xtick.labelcolor": MUTED,
    "ytick.labelcolor": MUTED,
    "lines.linewidth": 2.0,
    "lines.solid_capstyle": "round",
}


class Chart:
    """A matplotlib figure in the page's style; colours are this module's names.

    Use it as a context manager: axes take the style only inside.

    Args:
        width_in: Width, inches; the page scales the chart to its column.
        height_in: Height, inches.

    Raises:
        ConfigError: matplotlib is not installed.
    """

    def __init__(self, width_in: float = 4.6, height_in: float = 3.4) -> None:
        try:
            import matplotlib as mpl
            from matplotlib.figure import Figure
        except ImportError as error:
            raise ConfigError(
                "the page's charts need matplotlib, which is not installed; run "
                "`pip install 'memdecay[report]'` or give --no-html"
            ) from error
        self._context = mpl.rc_context(_STYLE)
        with mpl.rc_context(_STYLE):
            self.figure: Any = Figure(figsize=(width_in, height_in), layout="constrained")

    def __enter__(self) -> Any:
        self._context.__enter__()
        return self.figure

    def __exit__(self, *reason: Any) -> None:
        self._context.__exit__(*reason)


def to_svg(figure: Any, name: str, description: str) -> str:
    """Return a figure as SVG to stand in a page.

    Args:
        figure: A matplotlib figure, drawn in the colours of this module.
        name: A word that no other chart of the page has; ids in the SVG begin with it.
        description: What the chart shows, for those who can't see it.
    """
    import matplotlib as mpl

    stream = io.StringIO()
    with mpl.rc_context(_STYLE):
        figure.savefig(
            stream,
            format="svg",
            transparent=True,
            metadata={"Date": None, "Creator": None, "Format": None, "Type": None},
        )
    return _for_page(stream.getvalue(), name, description)


def _for_page(svg: str, name: str, description: str) -> str:
    svg = svg[svg.index("<svg") :]
    # Its style sheet would reach beyond the chart; the page has the same rule for charts.
    for useless in ("<metadata>.*?</metadata>", "<style[^>]*>.*?</style>"):
        svg = re.sub(useless, "", svg, flags=re.DOTALL)
    svg = re.sub(r'(\bid="|url\(#|href="#)', rf"\g<1>{name}-", svg)
    svg = re.sub(r"font-family: [^;]*;", "font-family: inherit;", svg)
    for colour, variable in _NAMES.items():
        svg = svg.replace(colour, f"var(--{variable})")
    head, body = svg.split(">", 1)
    view = re.findall(r'viewBox="[^"]*"|xmlns[:\w]*="[^"]*"', head)
    label = escape(description)
    return f'<svg class="chart" role="img" aria-label="{label}" {" ".join(view)}>{body}'
