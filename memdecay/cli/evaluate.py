"""`memdecay evaluate`: how good a classifier is on labelled traces."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from memdecay.classifier.artifact import CARD_FILE, load_artifact, record_evaluation
from memdecay.classifier.fingerprint import llm_fingerprint
from memdecay.classifier.llm import load_llm
from memdecay.classifier.pretrained import classifier_folder
from memdecay.classifier.storage import check_writable, write_text_atomically
from memdecay.cli.config_file import ConfigOption
from memdecay.cli.console import output_console, progress_bar
from memdecay.cli.options import (
    DEFAULT_CLASSIFIER,
    ClassifierOption,
    DeviceOption,
    DtypeOption,
    ModelOption,
    hidden_states_folder,
)
from memdecay.cli.report import metrics_table
from memdecay.cli.traces import load_labelled_traces
from memdecay.training.evaluation import evaluate_classifier

EPILOG = """
[bold]Examples[/bold]

memdecay evaluate --classifier runs/mine --traces gold.jsonl

memdecay evaluate --classifier runs/mine --traces gold.jsonl --json figures.json
"""


def evaluate(
    traces: Annotated[
        list[Path],
        typer.Option("--traces", help="Labelled traces (JSONL); may be given several times."),
    ],
    classifier: ClassifierOption = DEFAULT_CLASSIFIER,
    json_file: Annotated[
        Path | None, typer.Option("--json", help="Write the figures to this file as JSON.")
    ] = None,
    into_card: Annotated[
        bool,
        typer.Option(
            "--into-card", help="Write the figures into the classifier's card and README, too."
        ),
    ] = False,
    model: ModelOption = "smollm2",
    dtype: DtypeOption = "auto",
    device: DeviceOption = "auto",
    config: ConfigOption = None,  # noqa: ARG001  Its callback has set the defaults.
) -> None:
    """Measure a classifier on labelled traces, token by token.

    The exported ONNX graph is what is measured, just as it runs beside the LLM. Traces that the
    classifier was trained on are counted and named, since figures on them flatter it.
    """
    if json_file is not None:
        check_writable(json_file)
    artifact = load_artifact(classifier_folder(classifier, model))
    if into_card:
        check_writable(artifact.folder / CARD_FILE)
    labelled = load_labelled_traces(traces)
    llm = load_llm(model, dtype, device)
    artifact.check_llm(llm_fingerprint(llm.model), llm.hidden_size, llm.num_layers, model)
    with progress_bar("Hidden states", "tokens") as progress:
        evaluation = evaluate_classifier(
            artifact, labelled, llm, hidden_states_folder(), progress=progress
        )
    console = output_console()
    console.print(metrics_table(evaluation.metrics, f"{len(labelled)} traces"))
    if evaluation.num_trained_on:
        console.print(
            f"[yellow]The classifier was trained on {evaluation.num_trained_on} of these "
            f"{len(labelled)} traces: the figures flatter it.[/yellow]"
        )
    if into_card:
        name = ", ".join(path.name for path in traces)
        record_evaluation(artifact, name, evaluation.to_dict())
        console.print(f"Card: {artifact.folder / CARD_FILE}")
    if json_file is not None:
        write_text_atomically(json_file, json.dumps(evaluation.to_dict(), indent=2) + "\n")
        console.print(f"Figures: {json_file}")
