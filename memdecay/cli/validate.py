"""`memdecay validate`: everything that is wrong with trace files, and what to do."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from memdecay.cli.config_file import ConfigOption
from memdecay.cli.console import output_console
from memdecay.data.validation import validate_file

ERRORS_EXIT_CODE = 2
EPILOG = """
[bold]Examples[/bold]

memdecay validate labelled.jsonl

memdecay validate train.jsonl --against validation.jsonl --json
"""


def validate(
    files: Annotated[
        list[Path], typer.Argument(metavar="FILE...", help="Trace files (JSONL), labelled or not.")
    ],
    against: Annotated[
        Path | None,
        typer.Option("--against", help="A file that must share no task and no text with these."),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the report as JSON instead of lines.")
    ] = False,
    config: ConfigOption = None,  # noqa: ARG001  Its callback has acted on it.
) -> None:
    """Check trace files: schema, spans, coverage, duplicates, balance and leakage.

    Ends with exit code 2 if there are errors, 0 if there are only warnings and notes.
    """
    reports = [validate_file(path, against) for path in files]
    console = output_console()
    if as_json:
        data = {"files": [report.to_dict() for report in reports]}
        console.out(json.dumps(data, indent=2), highlight=False)
    else:
        for line in (line for report in reports for line in report.lines()):
            console.out(line, highlight=False)
    if any(report.has_errors for report in reports):
        raise typer.Exit(ERRORS_EXIT_CODE)
