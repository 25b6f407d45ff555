"""The subcommands, of which only the one that is asked for gets imported.

Importing all of them takes seconds (torch, transformers, Lightning); `memdecay --help` should not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from types import MappingProxyType

import typer

SUMMARIES: Mapping[str, str] = MappingProxyType(
    {
        "demo": "Train a classifier on the packaged traces, then replay a long session under a "
        "budget.",
        "import": "Import agent traces of any known format and say what became of each file.",
        "validate": "Check trace files: schema, spans, coverage, duplicates, balance and leakage.",
        "label": "Label traces by rules or by hand, and measure how well labellings agree.",
        "train": "Train a region classifier on labelled traces and export it.",
        "cross-validate": "Train and test with every source held out once, and print the table.",
        "evaluate": "Measure a classifier on labelled traces, token by token.",
        "calibrate": "Report how good a classifier is and whether its confidence can be trusted.",
        "calibrate-decay": "Measure how fast each region fades, and write its score and decay.",
        "calibrate-regret": "Measure what a tagger's wrong regions cost, confusion by confusion.",
        "tag": "Show which region the classifier gives each stretch of a trace.",
        "tune": "Fit how regions are scored, how they fade and what they weigh.",
        "foresee": "Fit a head that foresees from a token's keys and values how much it will be "
        "attended to.",
        "bench": "Measure the cache: how far it strays from a full one, what it costs in time and "
        "memory.",
        "run": "Replay a recorded session, or type one, with a cache that forgets within a budget.",
        "plan": "Print which ranges of a trace's tokens an engine should keep, and for how long.",
        "serve": "Serve a model with OpenAI's API; sessions keep their caches and forget within a "
        "budget.",
        "status": "Show a running server: its requests, its memory and your sessions.",
        "memory": "Say whether a model and its sessions fit into memory, and how many sessions "
        "would.",
    }
)
"""What each command does: the first line of its help."""

_MODULES = {
    "import": "import_traces",
    "cross-validate": "cross_validate",
    "calibrate-decay": "calibrate_decay",
    "calibrate-regret": "calibrate_regret",
}


def add_commands(app: typer.Typer, arguments: Sequence[str]) -> None:
    """Add the command that the arguments name whole, and the others by name and summary.

    Args:
        app: The application.
        arguments: The command line, without the program's name.
    """
    chosen = chosen_command(arguments)
    for name, summary in SUMMARIES.items():
        if name == chosen:
            _add(app, name)
        else:
            app.command(name, help=summary)(_not_imported)


def chosen_command(arguments: Sequence[str]) -> str | None:
    """Return the command that a command line names, or what stands in its place."""
    return next((argument for argument in arguments if not argument.startswith("-")), None)


def _add(app: typer.Typer, name: str) -> None:
    attribute = _MODULES.get(name, name)
    module = import_module(f"memdecay.cli.{attribute}")
    command = getattr(module, attribute)
    if isinstance(command, typer.Typer):
        app.add_typer(command, name=name, epilog=module.EPILOG)
    else:
        app.command(name, epilog=module.EPILOG)(command)


def _not_imported() -> None:
    raise AssertionError("a command was run that the arguments did not name")
