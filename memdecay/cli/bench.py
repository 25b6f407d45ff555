"""`memdecay bench`: the benchmarks of the cache."""

from __future__ import annotations

import typer

from memdecay.cli.bench_quality import EPILOG as QUALITY_EPILOG
from memdecay.cli.bench_quality import quality

EPILOG = """
Start with [bold]memdecay bench quality --help[/bold].
"""

bench = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode="rich",
    help="Measure the cache: how far it strays from a full one, what it costs in time and memory.",
    epilog=EPILOG,
)
bench.callback()(lambda: None)  # Keeps a single command a subcommand.
bench.command("quality", epilog=QUALITY_EPILOG)(quality)
