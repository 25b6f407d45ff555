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
from memdecay.cli.commands import add_commands, chosen_command
from memdecay.cli.console import error_console, log_handler
from memdecay.cli.openmp import wait_asleep

USAGE_EXIT_CODE = 2
INTERRUPTED_EXIT_CODE = 130
_RESUMABLE = ("bench", "calibrate", "cross-validate", "demo", "evaluate", "train")


def main(argv: Sequence[str] | None = None) -> None:
    """Run the command line; always ends in `SystemExit`.

    Exit codes: 0 done, 1 the reader of the output has gone, 2 for everything that the user can
    mend, 130 interrupted.
    """
    arguments = list(sys.argv[1:] if argv is None else argv)
    try:
        _run(arguments)
    except KeyboardInterrupt:
        is_resumable = chosen_command(arguments) in _RESUMABLE
        advice = "; the same command goes on where it stopped" if is_resumable else ""
        error_console().print(f"interrupted{advice}", soft_wrap=True)
        sys.exit(INTERRUPTED_EXIT_CODE)
    except MemdecayError as error:
        error_console().print(f"[bold red]error:[/bold red] {escape(str(error))}", soft_wrap=True)
        sys.exit(USAGE_EXIT_CODE)
    except BrokenPipeError:
        _drop_output()
        sys.exit(1)
    except OSError as error:
        _drop_output()
        place = f"{error.filename}: " if error.filename else ""
        reason = f"{place}{error.strerror or error}"
        error_console().print(
            f"[bold red]error:[/bold red] the system refused to read or write "
            f"({escape(reason)}); mend that and give the command again",
            soft_wrap=True,
        )
        sys.exit(USAGE_EXIT_CODE)


def _drop_output() -> None:
    # What could not be written can't be flushed either; Python would complain once more at exit.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _run(arguments: Sequence[str]) -> None:
    if chosen_command(arguments) == "serve":
        wait_asleep()
    try:
        make_app(arguments)(args=arguments, prog_name="memdecay")
    except SystemExit as stopped:
        # Typer's answer to an interrupt, given without a word.
        if stopped.code == INTERRUPTED_EXIT_CODE:
            raise KeyboardInterrupt from None
        raise


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
