"""Tables of figures in the terminal."""

from __future__ import annotations

from collections.abc import Mapping

from rich.table import Table

from memdecay.classifier.regions import REGION_LABELS
from memdecay.training.metrics import RegionMetrics

REGION_COLOURS = {
    "system_instruction": "magenta",
    "key_decision": "bold yellow",
    "tool_summary": "green",
    "recent_dialogue": "cyan",
    "ordinary_context": "bright_black",
}


def metrics_table(metrics: RegionMetrics, title: str) -> Table:
    """Return precision, recall, F1 and support per region, with the summary in the caption."""
    table = Table(
        title=title,
        caption=f"macro-F1 {metrics.macro_f1:.3f}, accuracy {metrics.accuracy:.3f}, "
        f"ECE {metrics.ece:.3f}, {metrics.tokens} tokens",
    )
    table.add_column("region")
    for name in ("precision", "recall", "F1", "tokens"):
        table.add_column(name, justify="right")
    for label in REGION_LABELS:
        row = metrics.per_region[label]
        table.add_row(
            f"[{REGION_COLOURS[label]}]{label}[/]",
            f"{row['precision']:.3f}",
            f"{row['recall']:.3f}",
            f"{row['f1']:.3f}",
            str(int(row["support"])),
        )
    return table


def comparison_table(taggers: Mapping[str, RegionMetrics], title: str, caption: str = "") -> Table:
    """Return macro-F1, accuracy and each region's F1 of several taggers, a column for each."""
    table = Table(title=title, caption=caption or None)
    table.add_column("")
    for name in taggers:
        table.add_column(name, justify="right")
    table.add_row("macro-F1", *(f"{metrics.macro_f1:.3f}" for metrics in taggers.values()))
    table.add_row("accuracy", *(f"{metrics.accuracy:.3f}" for metrics in taggers.values()))
    for label in REGION_LABELS:
        f1 = (f"{metrics.per_region[label]['f1']:.3f}" for metrics in taggers.values())
        table.add_row(f"F1 [{REGION_COLOURS[label]}]{label}[/]", *f1)
    return table


def mebibytes(size_bytes: int) -> str:
    """Return a size for people, in MiB."""
    return f"{size_bytes / (1 << 20):.1f} MiB"
