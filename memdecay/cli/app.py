"""The command's entry: its subcommands, and errors turned into one line and an exit code."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Sequence
from typing import Annotated

import typer
from rich.markup import escape

from memdecay import __version__
from memdecay.classifier.errors import MemdecayError
from memdecay.cli.commands import add_commands
from memdecay.cli.console import error_console, log_handler

USAGE_EXIT_CODE = 2


def main(argv: Sequence[str] | None = None) -> None:
    """Run the command line; always ends in `SystemExit`.

    Exit codes: 0 done, 1 interrupted, 2 for everything that the user can mend.
    """
    arguments = list(sys.argv[1:] if argv is None else argv)
    try:
        make_app(arguments)(args=arguments, prog_name="memdecay")
    except MemdecayError as error:
        error_console().print(f"[bold red]error:[/bold red] {escape(str(error))}", soft_wrap=True)
        sys.exit(USAGE_EXIT_CODE)
    except BrokenPipeError:
        # Whoever read our output has gone; Python would complain once more when it flushes.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)


def make_app(arguments: Sequence[str]) -> typer.Typer:
    """Return the application for a command line."""
    app = typer.Typer(
        name="memdecay",
        no_args_is_help=True,
        rich_markup_mode="rich",
        pretty_exceptions_enable=False,
        add_completion=False,
        context_settings={"help_option_names": ["-h", "--help"]},
        help="Memory for LLM agents: a KV cache whose tokens fade by region, age and use.",
        epilog="Start with [bold]memdecay demo[/bold]; each command has examples in its --help.",
    )
    app.callback()(_options)
    add_commands(app, arguments)
    return app


def _show_version(value: bool) -> None:
    if value:
        typer.echo(f"memdecay {__version__}")
        raise typer.Exit


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
