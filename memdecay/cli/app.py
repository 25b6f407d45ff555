"""The command's entry: its subcommands, and errors turned into one line and an exit code."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from memdecay import __version__
from memdecay.classifier.errors import MemdecayError
from memdecay.cli import demo, evaluate, run, tag, train
from memdecay.cli.console import error_console, log_handler

USAGE_EXIT_CODE = 2

app = typer.Typer(
    name="memdecay",
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Memory for LLM agents: a KV cache whose tokens fade by region, age and use.",
    epilog="Start with [bold]memdecay demo[/bold]; each command has examples in its --help.",
)


def _show_version(value: bool) -> None:
    if value:
        typer.echo(f"memdecay {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="Show what is being done in detail.")
    ] = False,
    version: Annotated[  # noqa: ARG001  The callback has acted on it.
        bool,
        typer.Option(
            "--version", callback=_show_version, is_eager=True, help="Show the version and exit."
        ),
    ] = False,
) -> None:
    logger = logging.getLogger("memdecay")
    logger.setLevel(logging.DEBUG if verbose else logging.INFO)
    if not logger.handlers:
        logger.addHandler(log_handler())


app.command(epilog=demo.EPILOG)(demo.demo)
app.command(epilog=train.EPILOG)(train.train)
app.command(epilog=evaluate.EPILOG)(evaluate.evaluate)
app.command(epilog=tag.EPILOG)(tag.tag)
app.command(epilog=run.EPILOG)(run.run)


def main(argv: Sequence[str] | None = None) -> None:
    """Run the command line; always ends in `SystemExit`.

    Exit codes: 0 done, 1 interrupted, 2 for everything that the user can mend.
    """
    try:
        app(args=None if argv is None else list(argv), prog_name="memdecay")
    except MemdecayError as error:
        error_console().print(f"[bold red]error:[/bold red] {escape(str(error))}", soft_wrap=True)
        sys.exit(USAGE_EXIT_CODE)
    except BrokenPipeError:
        # Whoever read our output has gone; Python would complain once more when it flushes.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)


def escape(text: str) -> str:
    """Return text in which rich sees no markup."""
    from rich.markup import escape as escape_markup

    return escape_markup(text)
