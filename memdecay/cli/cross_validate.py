"""`memdecay cross-validate`: how good a classifier is on sources it was not trained on."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from memdecay.classifier.llm import load_llm
from memdecay.cli.config_file import ConfigOption
from memdecay.cli.console import output_console, progress_bars
from memdecay.cli.options import (
    MAX_SEED,
    DeviceOption,
    DtypeOption,
    ModelOption,
    hidden_states_folder,
    option_errors,
)
from memdecay.cli.report import comparison_table
from memdecay.cli.traces import generated_supplement, load_labelled_traces
from memdecay.training.config import DeviceConfig, SplitConfig, TrainingConfig
from memdecay.training.cross_validation import (
    RESULTS_FILE,
    TABLE_FILE,
    CrossValidation,
    CrossValidationConfig,
)
from memdecay.training.cross_validation import (
    cross_validate as run_cross_validation,
)

_DEFAULTS = TrainingConfig()
EPILOG = """
[bold]Examples[/bold]

memdecay cross-validate --traces gold.jsonl --out runs/sources

memdecay cross-validate --traces gold.jsonl --folds 5 --out runs/five-folds
"""


def cross_validate(
    traces: Annotated[
        list[Path],
        typer.Option("--traces", help="Labelled traces (JSONL); may be given several times."),
    ],
    out: Annotated[Path, typer.Option("--out", help="Folder for the figures and the folds.")],
    folds: Annotated[
        int | None,
        typer.Option(
            "--folds",
            min=2,
            help="Pack the sources into so many folds, whole and evenly; one fold a source if not "
            "given.",
        ),
    ] = None,
    synthetic: Annotated[
        int | None,
        typer.Option(
            "--synthetic",
            min=0,
            help="Generated traces that every fold trains on as well, as many as `train` adds if "
            "not given.",
        ),
    ] = None,
    model: ModelOption = "smollm2",
    layer: Annotated[
        int | None,
        typer.Option(
            "--layer",
            min=0,
            help="Decoder layer to read, from 0; a little past the middle if not given.",
            rich_help_panel="Model",
        ),
    ] = None,
    dtype: DtypeOption = "auto",
    device: DeviceOption = "auto",
    max_epochs: Annotated[
        int,
        typer.Option(
            "--max-epochs",
            min=1,
            help="Passes over the tokens at most, in each fold.",
            rich_help_panel="Training",
        ),
    ] = _DEFAULTS.max_epochs,
    patience: Annotated[
        int,
        typer.Option(
            "--patience",
            min=1,
            help="Passes without a better validation loss before a fold's training stops.",
            rich_help_panel="Training",
        ),
    ] = _DEFAULTS.patience,
    epoch_tokens: Annotated[
        int,
        typer.Option(
            "--epoch-tokens",
            min=1,
            help="Tokens of a pass at most, drawn anew for each.",
            rich_help_panel="Training",
        ),
    ] = _DEFAULTS.epoch_tokens,
    seed: Annotated[
        int,
        typer.Option(
            "--seed",
            min=0,
            max=MAX_SEED,
            help="Seed of the validation draws, weights and order.",
            rich_help_panel="Training",
        ),
    ] = 0,
    accelerator: Annotated[
        str,
        typer.Option("--accelerator", help="Lightning's accelerator.", rich_help_panel="Lightning"),
    ] = _DEFAULTS.device.accelerator,
    precision: Annotated[
        str,
        typer.Option("--precision", help="Lightning's precision.", rich_help_panel="Lightning"),
    ] = _DEFAULTS.device.precision,
    config: ConfigOption = None,  # noqa: ARG001  Its callback has set the defaults.
) -> None:
    """Train and test with every source held out once, and print the table.

    Each source is tagged by a classifier that was trained on the other sources only, beside two
    baselines and, where traces were labelled twice, the second annotator. A run that was killed
    goes on where it stopped; the hidden states are those that `train` uses.
    """
    with option_errors():
        settings = CrossValidationConfig(
            num_folds=folds,
            layer=layer,
            training=TrainingConfig(
                max_epochs=max_epochs,
                patience=patience,
                epoch_tokens=epoch_tokens,
                seed=seed,
                split=SplitConfig(seed=seed),
                # One device: helper processes would run this whole command once more.
                device=DeviceConfig(accelerator, devices="1", precision=precision),
            ),
        )
    labelled = load_labelled_traces(traces)
    llm = load_llm(model, dtype, device)
    with option_errors(), progress_bars() as add_bar:
        result = run_cross_validation(
            labelled,
            llm,
            out,
            hidden_states_folder(),
            settings,
            supplement=generated_supplement(synthetic),
            progress=add_bar("Hidden states", "tokens"),
            training_progress=add_bar("Training", "epochs"),
        )
    _print(result, out)


def _print(result: CrossValidation, out: Path) -> None:
    console = output_console()
    console.print(
        comparison_table(
            {name: figures.metrics for name, figures in result.taggers.items()},
            f"Sources never seen in training, {len(result.folds)} folds",
            "the rules are written by hand, not fitted here",
        )
    )
    before, *after = result.calibration.items()
    errors = ", ".join(f"{estimate.value:.3f} with {name}" for name, estimate in after)
    console.print(
        f"Classifier's ECE: {before[1].value:.3f} without a temperature; by what it is fitted to: "
        f"{errors}\n"
        f"Temperature for new sources: {result.temperature:.3f}\n"
        f"Figures: {out / RESULTS_FILE}\nTable: {out / TABLE_FILE}"
    )
