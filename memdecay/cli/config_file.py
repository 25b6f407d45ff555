"""One TOML file whose keys are the options' names."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Collection, Iterator, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any

import typer

from memdecay.classifier.errors import ConfigError
from memdecay.cli.commands import SUMMARIES
from memdecay.cli.option_names import OptionShape, known_options, option_name, option_shapes

KnownOptions = Callable[[str], Mapping[str, frozenset[str]]]
"""Gives the options of a command, or of each of its parts, by name."""


def read_config(
    path: Path,
    command: str,
    options: Mapping[str, OptionShape],
    known: KnownOptions = known_options,
) -> dict[str, Any]:
    """Read the values that a configuration file holds for one command.

    Top-level keys hold for every command that has an option of that name; a table named like a
    command holds for that command alone and wins. A command of several parts has a table for each,
    ``[bench.quality]``, and keys of its own table, ``[bench]``, hold for all that have the option.
    Tables of other commands are left to them.

    Args:
        path: The TOML file.
        command: The command's name in full, ``bench quality``.
        options: The command's options by their names with underscores.
        known: The options of other commands, asked only where a key is none of this one.

    Returns:
        Values by option name with underscores.

    Raises:
        ConfigError: The file is missing or no TOML, a table or a key is named after nothing that
            there is, or a value can't be one of its option.
    """
    data = _load(path)
    tables = [name for name, value in data.items() if isinstance(value, dict)]
    for name in tables:
        if name not in SUMMARIES:
            raise ConfigError(
                f"{path}: there is no command for the table [{name}]; {_advice(name, SUMMARIES)}"
            )
    top = {name: value for name, value in data.items() if name not in tables}
    _check_top(path, top, options, known)
    levels = [("the top", top), *_own_tables(path, data, command, options, known)]
    values: dict[str, Any] = {}
    for place, table in levels:
        for key, value in table.items():
            if (name := _underscored(key)) in options:
                values[name] = _fit(value, options[name], f"{path}, {place}: {key}")
    return values


def _check_top(
    path: Path, top: Mapping[str, Any], options: Collection[str], known: KnownOptions
) -> None:
    for key, value in top.items():
        if key in SUMMARIES:
            raise ConfigError(f"{path}: {key!r} must be a table of options, got {value!r}")
    unknown = [key for key in top if _underscored(key) not in options]
    everything = set(options)
    for command in SUMMARIES:
        if not unknown:
            return
        everything |= {name for names in known(command).values() for name in names}
        unknown = [key for key in unknown if _underscored(key) not in everything]
    if unknown:
        raise ConfigError(
            f"{path}: no command has an option for the key {unknown[0]!r}; "
            f"{_advice(unknown[0], everything)}"
        )


def _own_tables(
    path: Path,
    data: Mapping[str, Any],
    command: str,
    options: Collection[str],
    known: KnownOptions,
) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the name and the content of the command's table, the widest first."""
    group, _, part = command.partition(" ")
    table = data.get(group, {})
    if not part:
        _refuse_unknown(path, group, table, options)
        yield f"[{group}]", table
        return
    parts = known(group)
    names = [name.removeprefix(f"{group} ") for name in parts]
    inner = {key: value for key, value in table.items() if isinstance(value, dict)}
    for name in inner:
        if name not in names:
            raise ConfigError(
                f"{path}: there is no command for the table [{group}.{name}]; "
                f"{_advice(name, names, group)}"
            )
    shared = {key: value for key, value in table.items() if key not in inner}
    _refuse_unknown(path, group, shared, {name for of in parts.values() for name in of})
    yield f"[{group}]", shared
    own = inner.get(part, {})
    _refuse_unknown(path, f"{group}.{part}", own, options)
    yield f"[{group}.{part}]", own


def _refuse_unknown(
    path: Path, table: str, content: Mapping[str, Any], options: Collection[str]
) -> None:
    command = table.replace(".", " ")
    for key in content:
        if _underscored(key) not in options:
            raise ConfigError(
                f"{path}: [{table}] has the key {key!r}, but `memdecay {command}` has no such "
                f"option; {_advice(key, options, command)}"
            )


def _advice(name: str, known: Collection[str], command: str = "") -> str:
    names = [_dashed(option) for option in known]
    if nearest := get_close_matches(_dashed(name), names, n=1):
        return f"did you mean {nearest[0]!r}?"
    return f"see `memdecay{f' {command}' if command else ''} --help` for what there is"


def _underscored(key: str) -> str:
    return key.replace("-", "_")


def _dashed(name: str) -> str:
    return name.replace("_", "-")


def _load(path: Path) -> dict[str, Any]:
    try:
        with path.open("rb") as stream:
            return tomllib.load(stream)
    except FileNotFoundError as error:
        raise ConfigError(f"{path} does not exist; give a TOML file with --config") from error
    except OSError as error:
        raise ConfigError(f"{path} cannot be read ({error.strerror})") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ConfigError(f"{path} is not TOML ({error}); mend that line") from error


def _fit(value: Any, shape: OptionShape, place: str) -> Any:
    if isinstance(value, dict) or any(isinstance(item, dict) for item in _items(value)):
        raise ConfigError(f"{place} is a table, expected the value of an option; mend it")
    if isinstance(value, list) and not shape.takes_several:
        raise ConfigError(f"{place} is a list, but the option takes one value; give one")
    # True would pass for the number 1.
    if not shape.is_flag and any(isinstance(item, bool) for item in _items(value)):
        raise ConfigError(
            f"{place} is true or false, but the option is none that is on or off; give its value"
        )
    # An option that takes several values iterates over what it gets; a lone text would be torn.
    return _items(value) if shape.takes_several else value


def _items(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _apply(context: typer.Context, path: Path | None) -> Path | None:
    if path is not None:
        names = {option_name(parameter): parameter.name for parameter in context.command.params}
        values = read_config(path, _full_name(context), option_shapes(context.command))
        context.default_map = {
            **(context.default_map or {}),
            **{str(names[key]): value for key, value in values.items()},
        }
    return path


def _full_name(context: typer.Context) -> str:
    """Return a command's name without the program's: ``bench quality``."""
    parts = []
    place: Any = context
    while place.parent is not None:
        parts.append(place.info_name or "")
        place = place.parent
    return " ".join(reversed(parts))


ConfigOption = Annotated[
    Path | None,
    typer.Option(
        "--config",
        is_eager=True,
        callback=_apply,
        help="TOML file: keys are option names, tables commands (\\[train], \\[bench.quality]); "
        "the command line wins.",
        metavar="FILE",
    ),
]
