"""The report of a speed benchmark: results as JSON, a page of tables, plots, a terminal table."""

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

import torch
from rich.table import Table

from memdecay.classifier.llm import LanguageModel
from memdecay.classifier.storage import write_text_atomically
from memdecay.runtime.bench.speed.config import SpeedConfig
from memdecay.runtime.bench.speed.contestants import BASELINE
from memdecay.runtime.bench.speed.plots import write_speed_plots
from memdecay.runtime.bench.speed.row import SpeedRow
from memdecay.runtime.bench.speed.timed import ATTENTION, PARTS, STORING

RESULTS_FILE = "results.json"
SUMMARY_FILE = "summary.md"
_LIBRARIES = ("memdecay", "torch", "transformers", "onnxruntime")
_OVERHEAD = tuple(part for part in PARTS if part not in (ATTENTION, STORING))
_MIB = 2**20


def machine(llm: LanguageModel) -> dict[str, Any]:
    """Describe what the figures were measured with.

    Returns:
        The device's name, the processor's kind, threads, the one-minute load for each processor
        core (None where the system tells none), versions, model and date.
    """
    is_cuda = llm.device.type == "cuda"
    cores = os.cpu_count() or 1
    load = os.getloadavg()[0] / cores if hasattr(os, "getloadavg") else None
    return {
        "model": llm.name,
        "dtype": str(llm.dtype).removeprefix("torch."),
        "device": torch.cuda.get_device_name(llm.device) if is_cuda else llm.device.type,
        "processor": platform.machine(),
        "cores": cores,
        "threads": torch.get_num_threads(),
        "load_per_core": load,
        "python": platform.python_version(),
        "versions": {name: _version(name) for name in _LIBRARIES},
        "date": f"{datetime.now(UTC):%Y-%m-%d}",
    }


def write_speed_results(
    folder: Path,
    rows: Sequence[SpeedRow],
    config: SpeedConfig,
    llm: LanguageModel,
    preparation_s: float,
) -> None:
    """Write the rows, the settings and the machine as JSON; see `write_speed_report`.

    Raises:
        StorageError: The file could not be written.
    """
    data = {
        "machine": machine(llm),
        "settings": asdict(config),
        "preparation_s": preparation_s,
        "baseline": BASELINE,
        "rows": [row.to_dict() for row in rows],
    }
    write_text_atomically(folder / RESULTS_FILE, json.dumps(data, indent=1) + "\n")


def write_speed_report(
    folder: Path,
    rows: Sequence[SpeedRow],
    config: SpeedConfig,
    llm: LanguageModel,
    preparation_s: float,
) -> Path:
    """Write results, summary and, where matplotlib is installed, plots; return the summary's path.

    Args:
        folder: The benchmark's folder.
        rows: All rows, at least one.
        config: How it was measured.
        llm: The language model.
        preparation_s: Seconds that loading kernels took before anything was timed.

    Raises:
        StorageError: A file could not be written.
    """
    write_speed_results(folder, rows, config, llm, preparation_s)
    plots = write_speed_plots(folder, rows)
    parts = [*_head(config, machine(llm), preparation_s)]
    parts += ["\n## Time and memory\n", *_speed(rows)]
    parts += ["\n## Parts of a decode step\n", *_parts(rows)]
    parts += [f"\n![{plot.stem}]({plot.name})" for plot in plots]
    path = folder / SUMMARY_FILE
    write_text_atomically(path, "\n".join(parts) + "\n")
    return path


def speed_table(rows: Sequence[SpeedRow]) -> Table:
    """Return the times and bytes as ratios to the baseline's, for the terminal."""
    table = Table(title=f"Beside {BASELINE} in the same run")
    for name in ("policy", "seen", "ms a step", "/ baseline", "P99 / median", "peak KV bytes"):
        table.add_column(name, justify="left" if name == "policy" else "right")
    for row in rows:
        table.add_row(
            row.policy,
            f"{row.seen:,}",
            f"{row.decode_ms:.1f}",
            f"{row.decode_ratio:.2f}",
            f"{row.p99_to_median:.2f}",
            f"{row.peak_ratio:.1%}",
        )
    return table


def _head(config: SpeedConfig, machine: dict[str, Any], preparation_s: float) -> Iterator[str]:
    yield "# Speed of the cache\n"
    versions = ", ".join(f"{name} {number}" for name, number in machine["versions"].items())
    load = machine["load_per_core"]
    yield (
        f"{machine['model']} in {machine['dtype']} on {machine['device']}, {machine['cores']} "
        f"{machine['processor']} cores, {machine['threads']} threads, {machine['date']}. "
        f"{versions}, Python {machine['python']}."
        + ("" if load is None else f" Load at the end: {load:.1f} running for each core.")
        + "\n"
    )
    budget = config.budget
    shown = f"{budget:.1%} of the" if isinstance(budget, float) else f"{budget:,}"
    stored = config.kv_dtype or machine["dtype"]
    yield (
        f"Budget: the bytes of {shown} tokens at full precision ({stored}). Random tokens, chunks "
        f"of at most {config.chunk_tokens}, then {config.num_steps} decode steps. All caches take "
        f"turns of {config.block_steps} steps in one run, so that a slow moment falls on all; "
        f"ratios are to {BASELINE} in the same turns, with 95 % bootstrap intervals over turns.\n"
    )
    yield (
        f"Preparation before anything was timed, once a process and in no row: {preparation_s:.1f} "
        "s for loading the kernels that attend to faded tokens.\n"
    )


def _speed(rows: Sequence[SpeedRow]) -> Iterator[str]:
    has_workspace = any(row.workspace_bytes is not None for row in rows)
    yield (
        "| seen | policy | kept | ms a step, median | P99 | P99 / median | median / baseline | "
        "mean / baseline | prefill, tokens/s | prefill time / baseline | peak KV, MiB | "
        "/ baseline |" + (" workspace, MiB |" if has_workspace else "")
    )
    yield "|---:|---|" + "---:|" * (11 if has_workspace else 10)
    for row in rows:
        ratio = f"{row.decode_ratio:.2f} [{row.decode_ratio_low:.2f}, {row.decode_ratio_high:.2f}]"
        cells = [
            f"{row.seen:,}",
            row.policy,
            f"{row.tokens_kept:,}",
            f"{row.decode_ms:.1f}",
            f"{row.decode_ms_p99:.1f}",
            f"{row.p99_to_median:.2f}",
            ratio,
            f"{row.decode_mean_ratio:.2f}",
            f"{row.prefill_tokens_per_s:,.0f}",
            f"{row.prefill_ratio:.2f}",
            f"{row.peak_kv_bytes / _MIB:.1f}",
            f"{row.peak_ratio:.1%}",
        ]
        if has_workspace:
            cells.append(f"{(row.workspace_bytes or 0) / _MIB:.1f}")
        yield f"| {' | '.join(cells)} |"


def _parts(rows: Sequence[SpeedRow]) -> Iterator[str]:
    listed = "; ".join(f"{name}: {meaning}" for name, meaning in PARTS.items())
    yield (
        "Mean milliseconds a step, in steps of their own with timers, evictions spread over them. "
        f"{listed}. Overhead: {', '.join(_OVERHEAD)}, as a share of the step.\n"
    )
    yield f"| seen | policy | step | {' | '.join(PARTS)} | overhead |"
    yield "|---:|---|---:|" + "---:|" * (len(PARTS) + 1)
    for row in rows:
        overhead = sum(row.parts_ms.get(part, 0.0) for part in _OVERHEAD)
        cells = [
            f"{row.seen:,}",
            row.policy,
            f"{row.parts_step_ms:.1f}",
            *(f"{row.parts_ms[part]:.2f}" if part in row.parts_ms else "" for part in PARTS),
            f"{overhead / row.parts_step_ms:.1%}",
        ]
        yield f"| {' | '.join(cells)} |"


def _version(name: str) -> str:
    if name == "onnxruntime":
        import onnxruntime

        return str(onnxruntime.__version__)
    return version(name)
