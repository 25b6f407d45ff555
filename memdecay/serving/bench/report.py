"""The report of a serving benchmark: results as JSON, a page of tables, plots, a terminal table."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from rich.table import Table

from memdecay.classifier.storage import write_text_atomically
from memdecay.serving.bench.config import LoadConfig
from memdecay.serving.bench.contestants import CONTESTANTS, CacheChoice, ModelChoice
from memdecay.serving.bench.figures import ServerFigures, common_rounds, figures_of
from memdecay.serving.bench.plots import write_serving_plots
from memdecay.serving.bench.row import ServerRun
from memdecay.serving.bench.targets import TargetResult, target_results

RESULTS_FILE = "results.json"
SUMMARY_FILE = "summary.md"
_LIBRARIES = ("memdecay", "torch", "transformers")
_COLUMNS = (
    "total, s",
    "requests/s",
    "TTFT, s",
    "TTFT P95",
    "round, s",
    "round P95",
    "peak RSS, MiB",
    "peak KV, MiB",
    "failed",
)
_MIB = 2**20


def write_serving_report(
    folder: Path,
    runs: Sequence[ServerRun],
    config: LoadConfig,
    model: ModelChoice,
    cache: CacheChoice,
) -> Path:
    """Write results, summary and, where matplotlib is installed, plots; return the summary's path.

    Args:
        folder: The benchmark's folder.
        runs: The contestants' runs, at least one.
        config: What the agents did.
        model: What was served.
        cache: What memdecay's servers kept.

    Raises:
        StorageError: A file could not be written.
    """
    common = equal_figures(runs)
    whole = [figures_of(run, config.num_rounds) for run in runs]
    targets = target_results(runs, common)
    data = {
        "machine": _machine(),
        "model": asdict(model),
        "cache": asdict(cache),
        "load": asdict(config),
        "figures": [asdict(figure) for figure in common],
        "figures_of_all_rounds": [asdict(figure) for figure in whole],
        "targets": [asdict(target) for target in targets],
        "runs": [run.to_dict() for run in runs],
    }
    write_text_atomically(folder / RESULTS_FILE, json.dumps(data, indent=1) + "\n")
    plots = write_serving_plots(folder, whole, common)
    parts = [*_head(config, model, cache), *_contestants(runs)]
    parts += ["\n## Equal rounds\n", *_equal(common)]
    if any(figure.was_cut for figure in whole):
        parts += ["\n## All rounds that each has done\n", *_table(whole, shows_rounds=True)]
    parts += ["\n## Targets\n", *_targets(targets)] if targets else []
    parts += [f"\n![{plot.stem}]({plot.name})" for plot in plots]
    path = folder / SUMMARY_FILE
    write_text_atomically(path, "\n".join(parts) + "\n")
    return path


def equal_figures(runs: Sequence[ServerRun]) -> list[ServerFigures]:
    """Return the contestants' figures over the rounds that all of them have done.

    Where one has failed early, the others are shown over all of theirs instead.
    """
    num_rounds = common_rounds(runs) or max(row.round for run in runs for row in run.rows)
    return [figures_of(run, num_rounds) for run in runs]


def serving_table(figures: Sequence[ServerFigures]) -> Table:
    """Return the figures for the terminal."""
    table = Table(title=f"{figures[0].num_rounds} rounds of each agent")
    table.add_column("server")
    for name in _COLUMNS:
        table.add_column(name, justify="right")
    for figure in figures:
        table.add_row(figure.name, *_cells(figure))
    return table


def _machine() -> dict[str, Any]:
    cores = os.cpu_count() or 1
    return {
        "processor": platform.machine(),
        "cores": cores,
        "load_per_core": os.getloadavg()[0] / cores if hasattr(os, "getloadavg") else None,
        "python": platform.python_version(),
        "versions": {name: version(name) for name in _LIBRARIES},
        "date": f"{datetime.now(UTC):%Y-%m-%d}",
    }


def _head(config: LoadConfig, model: ModelChoice, cache: CacheChoice) -> Iterator[str]:
    machine = _machine()
    yield "# Serving\n"
    versions = ", ".join(f"{name} {number}" for name, number in machine["versions"].items())
    load = machine["load_per_core"]
    yield (
        f"{model.name} in {model.dtype} on {model.device}, {machine['cores']} "
        f"{machine['processor']} cores, {machine['date']}. {versions}, Python "
        f"{machine['python']}."
        + ("" if load is None else f" Load at the end: {load:.1f} running for each core.")
        + "\n"
    )
    yield (
        f"{config.num_agents} agents at the same time, {config.num_rounds} rounds each, a tool "
        f"result of {config.dump_tokens:,} tokens at round {config.dump_round}, answers of at "
        f"most {config.max_tokens} tokens, streamed. Budget of a session: {cache.budget:,} "
        "tokens. The conversation of a round is that of the round before with the server's own "
        "answer and a new message.\n"
    )


def _contestants(runs: Sequence[ServerRun]) -> Iterator[str]:
    for run in runs:
        what = CONTESTANTS.get(run.name)
        yield f"- `{run.name}`: " + (f"`{what}`" if what else "a server that ran already")


def _equal(figures: Sequence[ServerFigures]) -> Iterator[str]:
    yield (
        f"The first {figures[0].num_rounds} rounds of each agent, which all contestants have "
        "done. TTFT: seconds to the first text of an answer. Peak memory is that of the whole "
        "run.\n"
    )
    yield from _table(figures, shows_rounds=False)


def _table(figures: Sequence[ServerFigures], *, shows_rounds: bool) -> Iterator[str]:
    names = ("server", *(("rounds",) if shows_rounds else ()), *_COLUMNS)
    yield f"| {' | '.join(names)} |"
    yield "|---|" + "---:|" * (len(names) - 1)
    for figure in figures:
        rounds = (str(figure.by_round[-1].round),) if shows_rounds else ()
        yield f"| {' | '.join((figure.name, *rounds, *_cells(figure)))} |"


def _cells(figure: ServerFigures) -> tuple[str, ...]:
    return (
        f"{figure.total_s:,.1f}",
        f"{figure.requests_per_s:.2f}",
        f"{figure.first_token_s:.2f}",
        f"{figure.first_token_p95_s:.2f}",
        f"{figure.round_s:.2f}",
        f"{figure.round_p95_s:.2f}",
        _mebibytes(figure.peak_rss_bytes),
        _mebibytes(figure.peak_kv_bytes),
        str(figure.num_failed),
    )


def _mebibytes(size_bytes: int | None) -> str:
    return "" if size_bytes is None else f"{size_bytes / _MIB:,.0f}"


def _targets(targets: Sequence[TargetResult]) -> Iterator[str]:
    yield "| target | wanted | measured | met |"
    yield "|---|---|---|---|"
    for target in targets:
        met = {True: "yes", False: "no", None: ""}[target.is_met]
        yield f"| {target.name} | {target.wanted} | {target.measured} | {met} |"
