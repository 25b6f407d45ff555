"""`memdecay demo`: the whole line on the embedded model, from labels to a picture."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from memdecay.classifier.artifact import load_artifact
from memdecay.classifier.llm import LanguageModel, load_llm
from memdecay.classifier.regions import REGION_LABELS
from memdecay.classifier.storage import write_text_atomically
from memdecay.cli.config_file import ConfigOption
from memdecay.cli.console import output_console, progress_bar, progress_bars
from memdecay.cli.options import (
    MAX_SEED,
    DeviceOption,
    DtypeOption,
    ModelOption,
    hidden_states_folder,
    option_errors,
)
from memdecay.cli.picture import check_picture, write_cache_picture
from memdecay.cli.report import REGION_COLOURS, mebibytes, metrics_table
from memdecay.data.generator import load_synthetic_traces, long_session
from memdecay.data.trace import Trace
from memdecay.runtime.comparison import Replay, assistant_positions, mean_kl, replay
from memdecay.runtime.config import CacheConfig
from memdecay.runtime.session import Session
from memdecay.runtime.stats import SessionStats
from memdecay.runtime.tagger import RegionTagger
from memdecay.training.config import TrainingConfig
from memdecay.training.pipeline import train_classifier

_POLICIES = ("full", "window", "streaming", "memdecay")
_TRAINING_CHARACTERS = 60_000
_SESSION_SEED = 7
_SESSION_CHARACTERS = 6_000
_COMPARED_POSITIONS = 256
_DECODED_TOKENS = 24
_MAX_EPOCHS = 12
_PICTURE = "cache.png"

EPILOG = """
[bold]Examples[/bold]

memdecay demo

memdecay demo --budget 768 --out runs/demo-768
"""


@dataclasses.dataclass(frozen=True, slots=True)
class _Row:
    """What one policy did with the session."""

    stats: SessionStats
    kl: float


def demo(
    out: Annotated[Path, typer.Option("--out", help="Folder for all that it writes.")] = Path(
        "runs/demo"
    ),
    budget: Annotated[
        int, typer.Option("--budget", min=1, help="Tokens that the small caches have room for.")
    ] = 384,
    characters: Annotated[
        int,
        typer.Option("--characters", min=3000, help="Length of the replayed session."),
    ] = _SESSION_CHARACTERS,
    seed: Annotated[
        int, typer.Option("--seed", min=0, max=MAX_SEED, help="Seed of the training.")
    ] = 0,
    model: ModelOption = "smollm2",
    dtype: DtypeOption = "auto",
    device: DeviceOption = "auto",
    config: ConfigOption = None,  # noqa: ARG001  Its callback has set the defaults.
) -> None:
    """Train a classifier on the packaged traces, then replay a long session under a budget.

    Prints full cache, sliding window, sinks with window and memdecay side by side, and draws the
    cache over time.
    """
    check_picture(out / _PICTURE)
    with option_errors():
        # All settings are checked before anything takes time.
        configs = {name: CacheConfig(budget_tokens=budget, policy=name) for name in _POLICIES}
        training = TrainingConfig(max_epochs=_MAX_EPOCHS, seed=seed)
    console = output_console()
    console.print("[bold]1/3[/bold] Loading the language model")
    llm = load_llm(model, dtype, device)
    console.print("[bold]2/3[/bold] Training the region classifier on packaged traces")
    folder = out / "classifier"
    _train(llm, folder, training)
    console.print("[bold]3/3[/bold] Replaying a long agent session with each cache")
    session = long_session(_SESSION_SEED, characters)
    tagger = RegionTagger(load_artifact(folder), llm.device.type)
    rows = _replay_all(llm, session, configs, tagger, budget)
    console.print(_comparison_table(rows, budget))
    _write(out, rows)


def _train(llm: LanguageModel, folder: Path, training: TrainingConfig) -> None:
    traces = _some(load_synthetic_traces(), _TRAINING_CHARACTERS)
    with progress_bars() as add_bar:
        result = train_classifier(
            traces,
            llm,
            folder,
            hidden_states_folder(),
            training=training,
            progress=add_bar("Hidden states", "tokens"),
            training_progress=add_bar("Training", "steps"),
        )
    if result is not None:
        output_console().print(metrics_table(result.metrics, "Held-out packaged traces"))


def _some(traces: Sequence[Trace], num_characters: int) -> list[Trace]:
    """Return the first traces that together hold about so many characters."""
    chosen: list[Trace] = []
    total = 0
    for trace in traces:
        if total + trace.num_characters <= num_characters:
            chosen.append(trace)
            total += trace.num_characters
    return chosen


def _replay_all(
    llm: LanguageModel,
    trace: Trace,
    configs: Mapping[str, CacheConfig],
    tagger: RegionTagger,
    budget: int,
) -> dict[str, _Row]:
    messages = [message.to_openai() for message in trace.messages]
    positions = assistant_positions(messages, llm, after=budget, max_positions=_COMPARED_POSITIONS)
    rows: dict[str, _Row] = {}
    reference: Replay | None = None
    for name, cache_config in configs.items():
        # All are tagged, also those that make no use of it, to count regions and time alike.
        session = Session(llm, cache_config, tagger)
        with progress_bar(f"  {name}", "tokens") as progress:
            found = replay(session, messages, positions, on_progress=progress)
        reference = reference or found
        session.reply(_DECODED_TOKENS)
        rows[name] = _Row(session.stats(), mean_kl(reference, found))
    return rows


def _comparison_table(rows: Mapping[str, _Row], budget: int) -> Table:
    seen = next(iter(rows.values())).stats.tokens_seen
    table = Table(
        title=f"A session of {seen} tokens, budget {budget}",
        caption="KL: how far the predictions are from the full cache's, in nats a token, on what "
        "the assistant wrote after the budget was full",
    )
    table.add_column("")
    for name in rows:
        table.add_column(name, justify="right")
    figures: dict[str, Callable[[_Row], str]] = {
        "KV cache": lambda row: mebibytes(row.stats.kv_bytes),
        "saved": _saved,
        "ms a decoded token": lambda row: f"{row.stats.decode_ms_per_token or 0:.1f}",
        "KL": lambda row: f"{row.kl:.3f}",
        "tokens kept": lambda row: str(row.stats.tokens_kept),
    }
    for name, figure in figures.items():
        table.add_row(name, *(figure(row) for row in rows.values()))
    for label in REGION_LABELS:
        kept = (str(row.stats.kept_per_region.get(label, 0)) for row in rows.values())
        table.add_row(f"  [{REGION_COLOURS[label]}]{label}[/]", *kept)
    return table


def _saved(row: _Row) -> str:
    return f"{row.stats.saved_share:.0%}" if row.stats.saved_share else "-"


def _write(out: Path, rows: Mapping[str, _Row]) -> None:
    picture = out / _PICTURE
    write_cache_picture(picture, {name: row.stats for name, row in rows.items()})
    figures: dict[str, Any] = {
        name: {"kl": row.kl} | dataclasses.asdict(row.stats) for name, row in rows.items()
    }
    write_text_atomically(out / "results.json", json.dumps(figures, indent=2) + "\n")
    output_console().print(
        f"Picture: {picture}\nFigures: {out / 'results.json'}\nClassifier: {out / 'classifier'}"
    )
