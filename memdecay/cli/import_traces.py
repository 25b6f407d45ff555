"""``memdecay import``: turn trace files of any known format into memdecay's own."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from memdecay.classifier.storage import check_writable, write_text_atomically
from memdecay.cli.config_file import ConfigOption
from memdecay.data.formats.report import Finding, ImportReport
from memdecay.data.importing import TraceImport
from memdecay.data.jsonl import write_traces

EPILOG = """
[bold]Examples[/bold]

memdecay import session.jsonl --out traces.jsonl

memdecay import ~/.claude/projects runs/*.traj --out traces.jsonl --json account.json
"""


def import_traces(
    sources: Annotated[
        list[Path], typer.Argument(metavar="SRC...", help="Trace files, or folders of them.")
    ],
    out: Annotated[Path, typer.Option("--out", help="The JSONL file to write the traces to.")],
    format_name: Annotated[
        str | None,
        typer.Option("--format", help="The format of all files; recognised by content if absent."),
    ] = None,
    report: Annotated[
        Path | None, typer.Option("--json", help="Write the account of each file here as JSON.")
    ] = None,
    config: ConfigOption = None,  # noqa: ARG001  Its callback has set the defaults.
) -> None:
    """Import agent traces of any known format and say what became of each file.

    Files are read record by record, however long; a broken record costs itself, not the file.
    Where not a single trace is found, nothing is written and the exit code is 2.
    """
    written = [path for path in (out, report) if path is not None]
    for path in written:
        check_writable(path)
    traces = TraceImport(sources, format_name, leave_out=written)
    try:
        write_traces(traces, out)
    finally:
        # Where nothing could be imported, the account says best why.
        for line in report_lines(traces.reports):
            typer.echo(line)
        if report is not None:
            _write_report(traces.reports, report)
    typer.echo(f"{sum(file.traces for file in traces.reports)} traces written to {out}")


def report_lines(reports: Sequence[ImportReport]) -> list[str]:
    """Return the account of each file for reading: a line for it and one for each finding."""
    lines = []
    for file in reports:
        counts = f"{file.traces} traces, {file.messages} messages"
        lines.append(f"{file.path}: {file.format or 'unknown format'}, {counts}")
        for verb in ("repaired", "skipped", "noticed"):
            findings: tuple[Finding, ...] = getattr(file, verb)
            lines += [f"  {verb} {_finding_text(finding)}" for finding in findings]
    return lines


def _finding_text(finding: Finding) -> str:
    place = f" (first: {finding.where})" if finding.where else ""
    return f"{finding.count} x {finding.what}{place}"


def _write_report(reports: Sequence[ImportReport], path: Path) -> None:
    data = {"files": [file.to_dict() for file in reports]}
    write_text_atomically(path, json.dumps(data, indent=2) + "\n")
