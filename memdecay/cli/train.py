"""`memdecay train`: labelled traces in, classifier folder out."""

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
from memdecay.cli.report import comparison_table, metrics_table
from memdecay.cli.traces import generated_supplement, load_labelled_traces
from memdecay.data.extraction import ExtractionConfig
from memdecay.training.config import (
    ClassWeighting,
    DeviceConfig,
    NetworkSizes,
    OptimizerConfig,
    SplitConfig,
    TrainingConfig,
)
from memdecay.training.cross_validation import read_temperature
from memdecay.training.fit import FitResult
from memdecay.training.pipeline import train_classifier

_DEFAULTS = TrainingConfig()
EPILOG = """
[bold]Examples[/bold]

memdecay train --traces labelled.jsonl --out runs/mine

memdecay train --traces a.jsonl --traces b.jsonl --model ./my-llama --layer 14 --out runs/llama

memdecay train --synthetic 160 --out runs/generated

memdecay train --config memdecay.toml
"""


def train(
    out: Annotated[Path, typer.Option("--out", help="Classifier folder to write.")],
    traces: Annotated[
        list[Path] | None,
        typer.Option("--traces", help="Labelled traces (JSONL); may be given several times."),
    ] = None,
    synthetic: Annotated[
        int | None,
        typer.Option(
            "--synthetic",
            min=0,
            help="Train on so many generated traces too (30 beside --traces if not given; the "
            "first 80 are packaged). Only without --traces are they measured on as well.",
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
    chunk_tokens: Annotated[
        int,
        typer.Option(
            "--chunk-tokens", min=1, help="Tokens of one forward.", rich_help_panel="Model"
        ),
    ] = ExtractionConfig().chunk_tokens,
    max_epochs: Annotated[
        int,
        typer.Option(
            "--max-epochs",
            min=1,
            help="Passes over the tokens at most.",
            rich_help_panel="Training",
        ),
    ] = _DEFAULTS.max_epochs,
    patience: Annotated[
        int,
        typer.Option(
            "--patience",
            min=1,
            help="Passes without a better validation loss before training stops.",
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
    batch_chunks: Annotated[
        int,
        typer.Option(
            "--batch-chunks",
            min=1,
            help="Chunks of 64 tokens in a batch.",
            rich_help_panel="Training",
        ),
    ] = _DEFAULTS.batch_chunks,
    learning_rate: Annotated[
        float,
        typer.Option(
            "--learning-rate", help="Peak of the one-cycle schedule.", rich_help_panel="Training"
        ),
    ] = _DEFAULTS.optimizer.learning_rate,
    weight_decay: Annotated[
        float, typer.Option("--weight-decay", help="AdamW's decay.", rich_help_panel="Training")
    ] = _DEFAULTS.optimizer.weight_decay,
    class_weighting: Annotated[
        ClassWeighting,
        typer.Option(
            "--class-weighting",
            help="How much rare regions count.",
            rich_help_panel="Training",
        ),
    ] = _DEFAULTS.optimizer.class_weighting,
    dropout: Annotated[
        float,
        typer.Option("--dropout", help="Share of inner units dropped.", rich_help_panel="Training"),
    ] = _DEFAULTS.network.dropout,
    context_tokens: Annotated[
        int,
        typer.Option(
            "--context-tokens",
            min=0,
            help="Neighbours on each side that the network sees.",
            rich_help_panel="Training",
        ),
    ] = _DEFAULTS.network.context_tokens,
    temperature_from: Annotated[
        Path | None,
        typer.Option(
            "--temperature-from",
            help="Calibrate for sources never seen: take the temperature of this results.json of "
            "`memdecay cross-validate`.",
            rich_help_panel="Training",
        ),
    ] = None,
    seed: Annotated[
        int,
        typer.Option(
            "--seed",
            min=0,
            max=MAX_SEED,
            help="Seed of split, weights and order.",
            rich_help_panel="Training",
        ),
    ] = 0,
    accelerator: Annotated[
        str,
        typer.Option("--accelerator", help="Lightning's accelerator.", rich_help_panel="Lightning"),
    ] = _DEFAULTS.device.accelerator,
    devices: Annotated[
        str, typer.Option("--devices", help="Lightning's devices.", rich_help_panel="Lightning")
    ] = _DEFAULTS.device.devices,
    strategy: Annotated[
        str,
        typer.Option(
            "--strategy", help="Lightning's strategy, ddp for example.", rich_help_panel="Lightning"
        ),
    ] = _DEFAULTS.device.strategy,
    precision: Annotated[
        str,
        typer.Option("--precision", help="Lightning's precision.", rich_help_panel="Lightning"),
    ] = _DEFAULTS.device.precision,
    config: ConfigOption = None,  # noqa: ARG001  Its callback has set the defaults.
) -> None:
    """Train a region classifier on labelled traces and export it.

    Hidden states are extracted once and kept; a run that was killed goes on where it stopped when
    the same command is given again. The printed figures come from traces that no weight has seen.
    """
    with option_errors():
        training = TrainingConfig(
            max_epochs=max_epochs,
            patience=patience,
            epoch_tokens=epoch_tokens,
            batch_chunks=batch_chunks,
            seed=seed,
            temperature=read_temperature(temperature_from) if temperature_from else None,
            network=NetworkSizes(dropout=dropout, context_tokens=context_tokens),
            optimizer=OptimizerConfig(
                learning_rate=learning_rate,
                weight_decay=weight_decay,
                class_weighting=class_weighting,
            ),
            split=SplitConfig(seed=seed),
            device=DeviceConfig(accelerator, devices, strategy, precision),
        )
        extraction = ExtractionConfig(chunk_tokens=chunk_tokens)
    labelled = load_labelled_traces(traces or (), 0 if traces else synthetic or 0)
    llm = load_llm(model, dtype, device)
    with option_errors(), progress_bars() as add_bar:
        result = train_classifier(
            labelled,
            llm,
            out,
            hidden_states_folder(),
            supplement=generated_supplement(synthetic) if traces else (),
            layer=layer,
            training=training,
            extraction=extraction,
            progress=add_bar("Hidden states", "tokens"),
            training_progress=add_bar("Training", "steps"),
        )
    if result is not None:
        _print_result(result)


def _print_result(result: FitResult) -> None:
    console = output_console()
    console.print(metrics_table(result.metrics, "Held-out traces"))
    console.print(
        comparison_table(
            {**result.baselines, "classifier": result.metrics},
            "Against the baselines, on the same tokens",
            "the rules are written by hand, not fitted to these traces",
        )
    )
    console.print(
        f"{result.num_parameters:,} weights, {result.num_epochs} epochs, temperature "
        f"{result.temperature:.3f} (ECE {result.ece_before:.3f} before, "
        f"{result.metrics.ece:.3f} after)\n"
        f"ONNX Runtime differs from torch by at most {result.parity.region_probs:.1e} "
        f"(probabilities) and {result.parity.importance:.1e} (importance)\n"
        f"Classifier: {result.folder}"
    )
