"""`memdecay label`: labels by rules, by people in Label Studio, and their agreement."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from memdecay.classifier.errors import ConfigError
from memdecay.classifier.storage import write_text_atomically
from memdecay.cli.config_file import ConfigOption
from memdecay.cli.console import output_console
from memdecay.cli.options import DeviceOption, DtypeOption, ModelOption
from memdecay.data.jsonl import read_traces, write_traces
from memdecay.data.labelling.agreement import (
    Unpaired,
    measure_agreement,
    pair_by_id,
    second_labelling,
)
from memdecay.data.labelling.label_studio import labeling_config, write_tasks
from memdecay.data.labelling.rule_report import RuleReport
from memdecay.data.labelling.studio_export import ExportAccount, from_tasks, read_export
from memdecay.data.labelling.weak import label_traces
from memdecay.data.trace import Trace

EPILOG = """
[bold]Examples[/bold]

memdecay label traces.jsonl --out weak.jsonl --report

memdecay label labelled.jsonl --report --json

memdecay label weak.jsonl --export-studio tasks.json

memdecay label weak.jsonl --import-studio export.json --out labelled.jsonl

memdecay label first.jsonl --agreement second.jsonl

memdecay label labelled.jsonl --audit --out doubtful.md
"""


def label(
    traces: Annotated[Path, typer.Argument(metavar="IN", help="Traces (JSONL).")],
    out: Annotated[
        Path | None, typer.Option("--out", help="Write the labelled traces here (JSONL).")
    ] = None,
    report: Annotated[
        bool,
        typer.Option(
            "--report",
            help="Show each rule's coverage, conflicts and losses, and accuracy if IN has spans.",
        ),
    ] = False,
    causal: Annotated[
        bool, typer.Option("--causal", help="Use nothing of later messages, as at run time.")
    ] = False,
    export_studio: Annotated[
        Path | None,
        typer.Option(
            "--export-studio",
            help="Write IN as Label Studio tasks, and the labelling interface beside it (.xml).",
            rich_help_panel="By hand",
        ),
    ] = None,
    import_studio: Annotated[
        Path | None,
        typer.Option(
            "--import-studio",
            help="Label IN by this JSON export of Label Studio, into --out.",
            rich_help_panel="By hand",
        ),
    ] = None,
    annotator: Annotated[
        int | None,
        typer.Option(
            "--annotator",
            help="Take this user's annotations only; else each task's newest.",
            rich_help_panel="By hand",
        ),
    ] = None,
    agreement: Annotated[
        Path | None,
        typer.Option(
            "--agreement",
            help="Compare IN's spans with this file's. IN itself: with its second annotator's.",
            rich_help_panel="By hand",
        ),
    ] = None,
    audit: Annotated[
        bool,
        typer.Option(
            "--audit",
            help="Let a model read IN and write to --out (.jsonl or .md) which labels its "
            "attention contradicts.",
            rich_help_panel="Attention",
        ),
    ] = False,
    max_tokens: Annotated[
        int,
        typer.Option(
            "--max-tokens",
            min=2,
            help="First tokens of each trace that the model reads.",
            rich_help_panel="Attention",
        ),
    ] = 4096,
    model: ModelOption = "smollm2",
    dtype: DtypeOption = "auto",
    device: DeviceOption = "auto",
    as_json: Annotated[bool, typer.Option("--json", help="Print figures as JSON.")] = False,
    config: ConfigOption = None,  # noqa: ARG001  Its callback has acted on it.
) -> None:
    """Label traces by rules or by hand, and measure how well labellings agree."""
    jobs = [job for job in (export_studio, import_studio, agreement, audit or None) if job]
    if len(jobs) > 1:
        raise ConfigError(
            "--export-studio, --import-studio, --agreement and --audit exclude each other"
        )
    if out is not None and (export_studio or agreement):
        job = "--export-studio" if export_studio else "--agreement"
        raise ConfigError(f"{job} writes nothing to --out; leave that out, or the other")
    if export_studio is not None:
        _export(traces, export_studio)
    elif import_studio is not None:
        _import(traces, import_studio, out, annotator)
    elif agreement is not None:
        _agree(traces, agreement, as_json)
    elif audit:
        _audit(traces, out, max_tokens, (model, dtype, device))
    else:
        _by_rules(traces, out, report, causal, as_json)


def _export(traces: Path, tasks: Path) -> None:
    if tasks.suffix == ".xml":
        raise ConfigError(
            f"--export-studio writes JSON, and the interface to {tasks}; give a name that ends "
            "in .json"
        )
    count = write_tasks(read_traces(traces), tasks)
    interface = tasks.with_suffix(".xml")
    write_text_atomically(interface, labeling_config())
    output_console().out(f"{count} tasks written to {tasks}, the interface to {interface}")


def _import(traces: Path, export: Path, out: Path | None, annotator: int | None) -> None:
    if out is None:
        raise ConfigError("--import-studio needs --out: where to write the labelled traces")
    account = ExportAccount()
    labelled = from_tasks(read_traces(traces), read_export(export), annotator, account)
    count = write_traces(labelled, out)
    for line in (*account.lines(), f"{count} labelled traces written to {out}"):
        output_console().out(line, highlight=False)


def _agree(first: Path, second: Path, as_json: bool) -> None:
    unpaired = Unpaired()
    if first == second:
        pairs = _own_pairs(first, unpaired)
    else:
        pairs = pair_by_id(read_traces(first), read_traces(second), unpaired)
    figures = measure_agreement(pairs).to_dict()
    figures["unpaired"] = [unpaired.first, unpaired.second]
    _show_agreement(figures, as_json)
    if not as_json and (unpaired.first or unpaired.second):
        text = f"not compared: {unpaired.first} traces of {first}, {unpaired.second} of {second}"
        output_console().out(text, highlight=False)


def _own_pairs(path: Path, unpaired: Unpaired) -> Iterator[tuple[Trace, Trace]]:
    for trace in read_traces(path):
        if other := second_labelling(trace):
            yield trace, other
        else:
            unpaired.first += 1


def _audit(traces: Path, out: Path | None, max_tokens: int, model: tuple[str, str, str]) -> None:
    if out is None:
        raise ConfigError("--audit needs --out: where to write the doubtful labels")
    # Here, so that the other jobs need not wait for transformers.
    from memdecay.cli.audit import AuditOptions, audit_traces

    audit_traces(traces, out, AuditOptions(*model, max_tokens))


def _by_rules(traces: Path, out: Path | None, report: bool, causal: bool, as_json: bool) -> None:
    if out is None and not report:
        raise ConfigError("nothing to do: give --out, --report or both")
    figures = RuleReport()

    def labelled() -> Any:
        for result in label_traces(read_traces(traces), lookahead=not causal):
            if report:
                figures.add(result)
            yield result.labelled_trace

    if out is None:
        for _ in labelled():
            pass
    else:
        count = write_traces(labelled(), out)
        if not as_json:
            output_console().out(f"{count} labelled traces written to {out}")
    if report:
        _show_rules(figures.to_dict(), as_json)


def _show_rules(figures: dict[str, Any], as_json: bool) -> None:
    console = output_console()
    if as_json:
        console.out(json.dumps(figures, indent=2), highlight=False)
        return
    table = Table(title=f"Rules on {figures['traces']} traces, by characters")
    table.add_column("rule")
    shares = ("coverage", "conflicts", "overruled")
    for name in (*shares, "accuracy"):
        table.add_column(name, justify="right")
    for rule in figures["rules"]:
        accuracy = "" if rule["accuracy"] is None else f"{rule['accuracy']:.2f}"
        table.add_row(rule["name"], *(f"{rule[name]:.1%}" for name in shares), accuracy)
    console.print(table)
    if figures["against_gold"]:
        _show_agreement(figures["against_gold"], as_json=False)


def _show_agreement(figures: dict[str, Any], as_json: bool) -> None:
    console = output_console()
    if as_json:
        console.out(json.dumps(figures, indent=2), highlight=False)
        return
    console.out(f"{figures['traces']} traces, {figures['characters']} characters")
    for name in ("accuracy", "cohen_kappa", "krippendorff_alpha", "macro_f1"):
        value = figures[name]
        console.out(f"{name:20} {'undefined' if value is None else f'{value:.3f}'}")
    for region, score in figures["f1"].items():
        console.out(f"  F1 {region:17} {score:.3f}")
