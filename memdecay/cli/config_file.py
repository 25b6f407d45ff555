"""One TOML file whose keys are the options' names."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from memdecay.classifier.errors import ConfigError


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
        ConfigError: The file is missing or no TOML, or a key of the command's table is no option.
    """
    data = _load(path)
    values: dict[str, Any] = {}
    for key, value in data.items():
        name = key.replace("-", "_")
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
        options = {
            parameter.name: bool(getattr(parameter, "multiple", False))
            for parameter in context.command.params
            if parameter.name and parameter.name != "config"
        }
        context.default_map = {
            **(context.default_map or {}),
            **read_config(path, command, options),
        }
    return path


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
