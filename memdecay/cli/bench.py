"""`memdecay bench`: the benchmarks of the cache."""

from __future__ import annotations

import typer

from memdecay.cli.bench_quality import EPILOG as QUALITY_EPILOG
from memdecay.cli.bench_quality import quality
from memdecay.cli.bench_serve import EPILOG as SERVE_EPILOG
from memdecay.cli.bench_serve import serve
from memdecay.cli.bench_speed import EPILOG as SPEED_EPILOG
from memdecay.cli.bench_speed import speed

EPILOG = """
See [bold]memdecay bench quality --help[/bold], [bold]memdecay bench speed --help[/bold] and
[bold]memdecay bench serve --help[/bold].
"""

bench = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode="rich",
    help="Measure the cache: how far it strays from a full one, what it costs in time and memory.",
    epilog=EPILOG,
)
bench.command("quality", epilog=QUALITY_EPILOG)(quality)
bench.command("speed", epilog=SPEED_EPILOG)(speed)
bench.command("serve", epilog=SERVE_EPILOG)(serve)
