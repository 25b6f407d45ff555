"""`memdecay calibrate-decay`: how fast each region fades, measured by attention."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape
from rich.measure import Measurement
from rich.table import Table

from memdecay.classifier.llm import load_llm
from memdecay.classifier.region_file import write_region_settings
from memdecay.classifier.storage import check_writable
from memdecay.cli.config_file import ConfigOption
from memdecay.cli.console import output_console, progress_bar
from memdecay.cli.options import (
    MAX_SEED,
    DeviceOption,
    DtypeOption,
    ModelOption,
    option_errors,
)
from memdecay.cli.report import REGION_COLOURS
from memdecay.cli.traces import load_labelled_traces
from memdecay.runtime.hindsight import received_attention
from memdecay.training.calibration.page.drawing import Chart
from memdecay.training.calibration.section import Section
from memdecay.training.decay import DecayConfig, measure_decay
from memdecay.training.decay.files import write_section
from memdecay.training.decay.section import decay_section

REGIONS_FILE = "regions.toml"
_DEFAULTS = DecayConfig()
_ENDLESS = 10_000
EPILOG = f"""
[bold]Examples[/bold]

memdecay calibrate-decay --traces labelled.jsonl --out decay

memdecay run --tagger rules --regions decay/{REGIONS_FILE} --trace traces.jsonl
"""


def calibrate_decay(
    traces: Annotated[
        list[Path],
        typer.Option("--traces", help="Labelled traces (JSONL); may be given several times."),
    ],
    out: Annotated[Path, typer.Option("--out", help="Folder for the settings and the report.")],
    max_tokens: Annotated[
        int, typer.Option("--max-tokens", min=2, help="First tokens of each trace that are read.")
    ] = _DEFAULTS.max_tokens,
    limit: Annotated[
        int | None, typer.Option("--limit", min=1, help="Read only the first so many traces.")
    ] = None,
    min_age: Annotated[
        int, typer.Option("--min-age", min=1, help="The least age in tokens that is fitted.")
    ] = _DEFAULTS.min_age,
    threshold: Annotated[
        float,
        typer.Option(
            "--threshold", help="Attention below which a token counts as forgotten; 1 is the mean."
        ),
    ] = _DEFAULTS.threshold,
    html: Annotated[
        bool, typer.Option("--html/--no-html", help="Draw the curves (needs matplotlib).")
    ] = True,
    seed: Annotated[
        int, typer.Option("--seed", min=0, max=MAX_SEED, help="Of the resampling.")
    ] = _DEFAULTS.seed,
    model: ModelOption = "smollm2",
    dtype: DtypeOption = "auto",
    device: DeviceOption = "auto",
    config: ConfigOption = None,  # noqa: ARG001  Its callback has set the defaults.
) -> None:
    """Measure how fast each region fades, and write its score and decay.

    The model reads labelled traces with nothing evicted. Writes regions.toml, which `run` takes,
    and a report: survival curves with intervals over traces, and the fits.
    """
    check_writable(out, is_folder=True)
    if html:
        Chart()  # Finds out before the long work whether there is anything to draw with.
    with option_errors():
        settings = DecayConfig(
            max_tokens=max_tokens, min_age=min_age, threshold=threshold, seed=seed
        )
    labelled = load_labelled_traces(traces)[:limit]
    llm = load_llm(model, dtype, device)
    with progress_bar("Reading", "tokens") as progress:
        report = measure_decay(labelled, llm, received_attention, settings, progress)
    section = decay_section(report, with_chart=html)
    files = write_section(section, out)
    write_region_settings(out / REGIONS_FILE, report.settings())
    print_section(section)
    output_console().print(f"Settings: {out / REGIONS_FILE}", markup=False)
    output_console().print(f"Report: {', '.join(map(str, files))}", markup=False)


def print_section(section: Section) -> None:
    """Print a section's table, or its last paragraph where it has none."""
    console = output_console()
    if section.table is None:
        console.print(section.paragraphs[-1], markup=False)
        return
    header, rows = section.table.header, section.table.rows
    table = Table(title=escape(section.title))
    for index, name in enumerate(header):
        table.add_column(name, justify="right" if index else "left", no_wrap=True)
    for name, *cells in rows:
        table.add_row(_coloured(name), *map(escape, cells))
    needed = Measurement.get(console, console.options.update(max_width=_ENDLESS), table)
    if needed.maximum <= console.width:
        console.print(table)
        return
    # Too wide for the terminal: a cut number is worth nothing.
    console.print(section.title, style="italic", markup=False)
    for name, *cells in rows:
        facts = ", ".join(
            f"{title} {cell}" for title, cell in zip(header[1:], cells, strict=True) if cell
        )
        console.print(f"{_coloured(name)}: {escape(facts)}")


def _coloured(name: str) -> str:
    colour = REGION_COLOURS.get(name)
    return f"[{colour}]{name}[/]" if colour else escape(name)
