"""One TOML file whose keys are the options' names."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from memdecay.classifier.errors import ConfigError
from memdecay.cli.commands import SUMMARIES


def read_config(path: Path, command: str, options: Mapping[str, bool]) -> dict[str, Any]:
    """Read the values that a configuration file holds for one command.

    Top-level keys hold for every command that has an option of that name; a table named like a
    command holds for that command alone and wins.

    Args:
        path: The TOML file.
        command: The command's name.
        options: The command's option names with underscores, and whether each takes several values.

    Returns:
        Values by option name with underscores.

    Raises:
        ConfigError: The file is missing or no TOML, a table is named after no command, or a key of
            the command's table is no option.
    """
    data = _load(path)
    values: dict[str, Any] = {}
    for key, value in data.items():
        name = key.replace("-", "_")
        if isinstance(value, dict) and key not in SUMMARIES:
            raise ConfigError(
                f"{path}: there is no command for the table [{key}]; expected one of "
                f"{', '.join(SUMMARIES)}"
            )
        if not isinstance(value, dict) and name in options:
            values[name] = value
    table = data.get(command, {})
    if not isinstance(table, dict):
        raise ConfigError(f"{path}: {command!r} must be a table of options, got {table!r}")
    for key, value in table.items():
        name = key.replace("-", "_")
        if name not in options:
            raise ConfigError(
                f"{path}: [{command}] has the key {key!r}, but `memdecay {command}` has no such "
                f"option; see `memdecay {command} --help`"
            )
        values[name] = value
    return {name: _fit(value, options[name]) for name, value in values.items()}


def _load(path: Path) -> dict[str, Any]:
    try:
        with path.open("rb") as stream:
            return tomllib.load(stream)
    except FileNotFoundError as error:
        raise ConfigError(f"{path} does not exist; give a TOML file with --config") from error
    except OSError as error:
        raise ConfigError(f"{path} cannot be read ({error.strerror})") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} is not TOML ({error}); mend that line") from error


def _fit(value: Any, takes_several: bool) -> Any:
    # An option that takes several values iterates over what it gets; a lone text would be torn.
    if takes_several and not isinstance(value, list):
        return [value]
    return value


def _apply(context: typer.Context, path: Path | None) -> Path | None:
    if path is not None:
        command = context.info_name or ""
        parameters = {_key(parameter): parameter for parameter in context.command.params}
        options = {
            key: bool(getattr(parameter, "multiple", False)) or parameter.nargs == -1
            for key, parameter in parameters.items()
            if key not in ("config", "help")
        }
        values = read_config(path, command, options)
        context.default_map = {
            **(context.default_map or {}),
            **{str(parameters[key].name): value for key, value in values.items()},
        }
    return path


def _key(parameter: Any) -> str:
    """Return an option's long name with underscores; it may differ from the function's argument."""
    long = next((name for name in parameter.opts if name.startswith("--")), parameter.name or "")
    return str(long).removeprefix("--").replace("-", "_")


ConfigOption = Annotated[
    Path | None,
    typer.Option(
        "--config",
        is_eager=True,
        callback=_apply,
        help="TOML file whose keys are option names; the command line wins.",
        metavar="FILE",
    ),
]
