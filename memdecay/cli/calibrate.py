"""`memdecay calibrate`: a report on how far a classifier can be trusted."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from memdecay.classifier.artifact import load_artifact
from memdecay.classifier.errors import ConfigError
from memdecay.classifier.fingerprint import llm_fingerprint
from memdecay.classifier.llm import load_llm
from memdecay.classifier.pretrained import classifier_folder
from memdecay.classifier.storage import check_writable
from memdecay.cli.config_file import ConfigOption
from memdecay.cli.console import output_console, progress_bar
from memdecay.cli.options import (
    DEFAULT_CLASSIFIER,
    MAX_SEED,
    ClassifierOption,
    DeviceOption,
    DtypeOption,
    ModelOption,
    hidden_states_folder,
    option_errors,
)
from memdecay.cli.report import metrics_table
from memdecay.cli.traces import load_labelled_traces
from memdecay.training.calibration import (
    CalibrationConfig,
    CalibrationReport,
    Section,
    write_report,
)
from memdecay.training.calibration import (
    calibrate as measure,
)
from memdecay.training.calibration.baseline import read_baseline
from memdecay.training.calibration.page.html import check_page
from memdecay.training.calibration.verdict.drift import DriftConfig
from memdecay.training.calibration.verdict.verdict import Status
from memdecay.training.calibration.wording import training_notice
from memdecay.training.decay.files import read_section

DRIFT_EXIT_CODE = 1
_TONES = {Status.CALIBRATED: "green", Status.UNPROVEN: "yellow"}

EPILOG = """
[bold]Examples[/bold]

memdecay calibrate --classifier runs/mine --traces gold.jsonl --out report

memdecay calibrate --classifier runs/mine --traces may.jsonl --out may --baseline report
"""


def calibrate(
    traces: Annotated[
        list[Path],
        typer.Option("--traces", help="Labelled traces (JSONL); may be given several times."),
    ],
    out: Annotated[Path, typer.Option("--out", help="Folder for the report.")],
    classifier: ClassifierOption = DEFAULT_CLASSIFIER,
    baseline: Annotated[
        Path | None,
        typer.Option("--baseline", help="An earlier report (its folder or JSON) to compare with."),
    ] = None,
    fail_on_drift: Annotated[
        bool, typer.Option("--fail-on-drift", help="Exit with 1 if the baseline has drifted.")
    ] = False,
    section: Annotated[
        list[Path] | None,
        typer.Option(
            "--section",
            help="A folder that calibrate-decay or calibrate-regret wrote, to show as a further "
            "part; may be given several times.",
        ),
    ] = None,
    target_accuracy: Annotated[
        float,
        typer.Option("--target-accuracy", help="Accuracy that the abstain threshold is to reach."),
    ] = 0.9,
    num_worst: Annotated[int, typer.Option("--num-worst", min=0, help="Wrong spans to show.")] = 12,
    text: Annotated[
        bool, typer.Option("--text/--no-text", help="Show the text of wrong spans, or keep it out.")
    ] = True,
    html: Annotated[
        bool, typer.Option("--html/--no-html", help="Make the page, or JSON and Markdown alone.")
    ] = True,
    seed: Annotated[
        int, typer.Option("--seed", min=0, max=MAX_SEED, help="Of the resampling.")
    ] = 0,
    model: ModelOption = "smollm2",
    dtype: DtypeOption = "auto",
    device: DeviceOption = "auto",
    config: ConfigOption = None,  # noqa: ARG001  Its callback has set the defaults.
) -> None:
    """Report how good a classifier is and whether its confidence can be trusted.

    Writes one HTML page that needs no network, report.json (with the keys of `evaluate`) and
    report.md. With an earlier report as the baseline it says what has drifted. Traces that the
    classifier was trained on are named and measured apart.
    """
    check_writable(out, is_folder=True)
    if html:
        check_page()
    if fail_on_drift and baseline is None:
        raise ConfigError("--fail-on-drift needs an earlier report to compare with; add --baseline")
    with option_errors():
        settings = CalibrationConfig(
            target_accuracy=target_accuracy,
            num_worst=num_worst,
            show_text=text,
            seed=seed,
            drift=DriftConfig(seed=seed),
        )
    earlier = None if baseline is None else read_baseline(baseline)
    sections = _read_sections(section or ())
    artifact = load_artifact(classifier_folder(classifier, model))
    labelled = load_labelled_traces(traces)
    llm = load_llm(model, dtype, device)
    artifact.check_llm(llm_fingerprint(llm.model), llm.hidden_size, llm.num_layers, model)
    with progress_bar("Hidden states", "tokens") as progress:
        report = measure(
            artifact,
            labelled,
            llm,
            hidden_states_folder(),
            settings,
            baseline=earlier,
            progress=progress,
        )
    files = write_report(report, out, sections, with_page=html)
    _print(report, files[0])
    if fail_on_drift and report.verdict.status is Status.DRIFTED:
        raise typer.Exit(DRIFT_EXIT_CODE)


def _read_sections(paths: Sequence[Path]) -> tuple[Section, ...]:
    sections = tuple(read_section(path) for path in paths)
    keys = [section.key for section in sections]
    if len(set(keys)) < len(keys):
        raise ConfigError(
            f"--section was given parts of the same kind ({', '.join(keys)}), expected one of "
            "each; leave one out"
        )
    return sections


def _print(report: CalibrationReport, file: Path) -> None:
    console = output_console()
    metrics = report.parts[report.part].metrics if report.parts else report.evaluation.metrics
    console.print(metrics_table(metrics, f"{report.num_traces} traces"))
    tone = _TONES.get(report.verdict.status, "red")
    console.print(f"[bold {tone}]{report.verdict.title}[/]")
    for reason in report.verdict.reasons:
        console.print(reason, markup=False)
    if report.evaluation.num_trained_on:
        console.print(f"[yellow]{training_notice(report)}[/yellow]")
    console.print(f"Report: {file}", markup=False)
