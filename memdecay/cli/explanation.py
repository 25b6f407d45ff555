"""What a session forgot, in the terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table
from rich.text import Text

from memdecay.cli.report import REGION_COLOURS
from memdecay.runtime.explanation import ExplainedSpan

_SHOWN_CHARACTERS = 60


def explanation_table(spans: Sequence[ExplainedSpan], num_shown: int) -> Table:
    """Return the spans that changed last, newest first."""
    latest = sorted(spans, key=lambda span: span.at, reverse=True)[:num_shown]
    table = Table(
        title=f"Forgotten or faded: the last {len(latest)} of {len(spans)} spans",
        caption="score: the policy's ranking then, on a logarithmic scale",
    )
    table.add_column("after", justify="right")
    table.add_column("now")
    table.add_column("region")
    table.add_column("score", justify="right")
    table.add_column("tokens", justify="right")
    table.add_column("text")
    for span in latest:
        table.add_row(
            str(span.at),
            _what_became(span),
            f"[{REGION_COLOURS[span.region.label]}]{span.region.label}[/]",
            f"{span.score:.1f}",
            f"{span.start}-{span.stop - 1}",
            Text(_shortened(span.text)),
        )
    return table


def _what_became(span: ExplainedSpan) -> str:
    if span.promoted_from is not None:
        return f"found by attention, was {span.promoted_from.label}"
    return "forgotten" if span.is_forgotten else f"{span.bits} bits"


def _shortened(text: str) -> str:
    visible = "".join(c if c.isprintable() else "·" for c in text)
    if len(visible) <= _SHOWN_CHARACTERS:
        return visible
    return f"{visible[: _SHOWN_CHARACTERS - 1]}…"
