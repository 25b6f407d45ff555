"""The names by which commands take their options, asked of the commands themselves."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import typer
from typer.main import get_command

from memdecay.cli.commands import add_commands

_NOT_IN_FILES = frozenset({"config", "help", "install_completion", "show_completion"})


@dataclass(frozen=True, slots=True)
class OptionShape:
    """What an option takes.

    Attributes:
        takes_several: Whether it may be given several times.
        is_flag: Whether it is on or off.
    """

    takes_several: bool = False
    is_flag: bool = False


def option_shapes(command: Any) -> dict[str, OptionShape]:
    """Return what a command's options take, by their long names with underscores.

    Args:
        command: Typer's command.
    """
    return {
        name: OptionShape(
            takes_several=bool(getattr(parameter, "multiple", False)) or parameter.nargs == -1,
            is_flag=bool(getattr(parameter, "is_flag", False)),
        )
        for parameter in command.params
        if (name := option_name(parameter)) not in _NOT_IN_FILES
    }


def option_name(parameter: Any) -> str:
    """Return an option's long name with underscores; it may differ from the function's argument."""
    long = next((name for name in parameter.opts if name.startswith("--")), parameter.name or "")
    return str(long).removeprefix("--").replace("-", "_")


def known_options(command: str) -> Mapping[str, frozenset[str]]:
    """Import a command, and return the options of it or of each of its parts.

    Args:
        command: A name of `memdecay.cli.commands.SUMMARIES`.

    Returns:
        Option names with underscores, by the command's name in full: ``bench quality``.
    """
    app = typer.Typer(add_completion=False)
    app.callback()(_nothing)  # Without it, Typer takes a lone command for the application.
    add_commands(app, [command])
    found: Any = get_command(app)
    return dict(_walk(found.commands[command], command))


def _walk(command: Any, name: str) -> Iterator[tuple[str, frozenset[str]]]:
    parts = getattr(command, "commands", None)
    if parts is None:
        yield name, frozenset(option_shapes(command))
        return
    for part, inner in parts.items():
        yield from _walk(inner, f"{name} {part}")


def _nothing() -> None:
    """Take no options."""
