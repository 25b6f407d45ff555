"""The report of a quality benchmark: a page of tables, plots, and a table for the terminal."""

from __future__ import annotations

import math
import platform
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

import torch
from rich.table import Table

from memdecay.classifier.llm import LanguageModel
from memdecay.classifier.regions import REGION_LABELS
from memdecay.classifier.storage import write_text_atomically
from memdecay.runtime.bench.caches.variants import Variant
from memdecay.runtime.bench.quality.config import QualityConfig
from memdecay.runtime.bench.quality.probes import AGES
from memdecay.runtime.bench.quality.row import QualityRow
from memdecay.runtime.bench.report.plots import write_plots
from memdecay.runtime.bench.report.statistics import Interval, geometric_mean, mean_interval
from memdecay.runtime.bench.report.table import ResultTable

SUMMARY_FILE = "summary.md"
_WANTED_KL = (0.05, 0.1)


def write_report(
    folder: Path,
    rows: Sequence[QualityRow],
    variants: Sequence[Variant],
    config: QualityConfig,
    llm: LanguageModel,
) -> Path:
    """Write the summary and, where matplotlib is installed, the plots; return the summary's path.

    Args:
        folder: The benchmark's folder.
        rows: All its rows, at least one.
        variants: The policies, in the order in which they are shown.
        config: How it was measured.
        llm: The language model.

    Raises:
        StorageError: A file could not be written.
    """
    table = ResultTable(rows, variants)
    plots = write_plots(folder, table)
    path = folder / SUMMARY_FILE
    parts = [*_head(table, config, llm)]
    for budget in table.budgets:
        parts += [f"\n## {budget:.1%} of the full cache's bytes\n", *_quality(table, budget)]
        parts += ["\nShare of the full cache's benefit kept in recalling spans:\n"]
        parts += [*_retention(table, budget)]
    parts += ["\n## Memory at equal quality\n", *_memory(table)]
    parts += [f"\n![{plot.stem}]({plot.name})" for plot in plots]
    write_text_atomically(path, "\n".join(parts) + "\n")
    return path


def quality_table(rows: Sequence[QualityRow], variants: Sequence[Variant]) -> Table:
    """Return mean divergences by policy and budget for the terminal."""
    results = ResultTable(rows, variants)
    table = Table(title=f"Mean KL to the full cache, {len(results.traces)} traces")
    table.add_column("policy")
    for budget in results.budgets:
        table.add_column(f"{budget:.1%}", justify="right")
    for policy in results.evicting:
        means = [mean_interval(results.values(policy, budget, "kl")) for budget in results.budgets]
        table.add_row(policy, *(f"{mean.value:.4f}" for mean in means))
    return table


def _head(table: ResultTable, config: QualityConfig, llm: LanguageModel) -> Iterator[str]:
    versions = ", ".join(
        f"{name} {version(name)}" for name in ("memdecay", "torch", "transformers")
    )
    yield "# Quality of the cache\n"
    yield (
        f"{llm.name} in {str(llm.dtype).removeprefix('torch.')} on {llm.device.type}, "
        f"{len(table.traces)} traces of {len(table.sources)} sources, "
        f"{datetime.now(UTC):%Y-%m-%d}. {versions}, Python {platform.python_version()}, "
        f"{platform.machine()}, {torch.get_num_threads()} threads.\n"
    )
    stored = str(config.stored_dtype(llm.dtype)).removeprefix("torch.")
    yield (
        f"Keys and values are stored in {stored}, in which the full cache's bytes are counted too. "
        f"Recorded traces are replayed in chunks of {config.chunk_tokens} tokens, and tokens are "
        f"evicted between chunks. Compared are at most {config.max_scored} predictions of "
        f"assistant tokens a trace, none in its first {config.first_share:.1%}. The newest "
        f"{config.num_recent} tokens are protected in every policy, the first {config.num_sinks} "
        "in all but `window`. Means are over traces, in brackets 95 % bootstrap intervals over "
        "traces; ratios are geometric means of paired ratios to the best baseline, of the methods "
        "from the literature and `learned`, which all only evict. Copied: tokens of spans of at "
        f"least {config.copy_tokens} tokens whose newest copy is more than {config.copy_distance} "
        "tokens back.\n"
    )
    full = [variant for variant in table.variants if variant.policy == "full"]
    for variant in full:
        values = table.values(variant.name, 1.0, "kl")
        yield f"The full cache replayed once more has a KL of {max(values):g} to itself.\n"


def _quality(table: ResultTable, budget: float) -> Iterator[str]:
    best = table.best_baseline(budget)
    yield (
        "| policy | bytes | KL | geo. mean | KL / best | KL calls | KL copied | copied / best | "
        "ΔNLL | top-1 | same continuation |"
    )
    yield "|---|" + "---:|" * 10
    for policy in table.evicting:
        rows = table.rows(policy, budget)
        if not rows:
            continue
        share = sum(row.kv_bytes / row.full_bytes for row in rows) / len(rows)

        def mean(name: str, policy: str = policy) -> float:
            return mean_interval(table.values(policy, budget, name)).value

        cells = [
            f"**{policy}**" if policy == best else policy,
            f"{share:.1%}",
            _with_interval(mean_interval(table.values(policy, budget, "kl")), 4),
            f"{geometric_mean(table.values(policy, budget, 'kl')):.4f}",
            "" if best is None else _with_interval(table.ratio(policy, best, budget), 2),
            _number(mean("kl_tool")),
            _number(mean("kl_copied")),
            _copied_ratio(table, policy, budget),
            f"{mean('delta_nll'):+.4f}",
            f"{mean('top1'):.1%}",
            _continuation(rows),
        ]
        yield f"| {' | '.join(cells)} |"


def _continuation(rows: Sequence[QualityRow]) -> str:
    wanted = [row for row in rows if row.continuation_tokens]
    if not wanted:
        return "-"
    share = sum(row.is_continuation_equal for row in wanted) / len(wanted)
    equal = sum(row.continuation_equal for row in wanted)
    return f"{share:.0%}, {equal} of {sum(row.continuation_tokens for row in wanted)} tokens"


def _copied_ratio(table: ResultTable, policy: str, budget: float) -> str:
    best = table.best_baseline(budget, "kl_copied")
    if best is None:
        return ""
    return _with_interval(table.ratio(policy, best, budget, "kl_copied"), 2)


def _retention(table: ResultTable, budget: float) -> Iterator[str]:
    ages = [name for name, _, _ in AGES]
    columns: list[tuple[str, str | None, str | None]] = [("all", None, None)]
    columns += [(label, label, None) for label in REGION_LABELS]
    columns += [(f"{age} tokens old", None, age) for age in ages]
    yield from _retention_table(table, budget, columns)
    yield "\nBy region and age in tokens:\n"
    cells = [(f"{label}, {age}", label, age) for label in REGION_LABELS for age in ages]
    yield from _retention_table(table, budget, cells)


def _retention_table(
    table: ResultTable, budget: float, columns: Sequence[tuple[str, str | None, str | None]]
) -> Iterator[str]:
    """Write a line for each policy; a column is a title, a region and an age, None for all."""
    yield f"| policy | {' | '.join(name for name, _, _ in columns)} |"
    yield "|---|" + "---:|" * len(columns)
    for policy in table.evicting:
        if table.rows(policy, budget):
            cells = [
                _with_interval(table.retention(policy, budget, region, age), 2)
                for _, region, age in columns
            ]
            yield f"| {policy} | {' | '.join(cells)} |"


def _memory(table: ResultTable) -> Iterator[str]:
    titles = [f"KL ≤ {kl}" for kl in _WANTED_KL]
    yield f"| policy | {' | '.join(f'{title} | / window' for title in titles)} |"
    yield "|---|" + "---:|" * (2 * len(titles))
    for policy in table.evicting:
        cells: list[str] = []
        for kl in _WANTED_KL:
            memory, window = table.memory(policy, kl), table.memory("window", kl)
            cells.append("" if memory is None else _bounded(memory.bound, memory.share))
            if memory is None or window is None:
                cells.append("")
            else:
                bound = _ratio_bound(memory.bound, window.bound)
                cells.append(f"{bound}{memory.share / window.share:.3f}" if bound else "?")
        yield f"| {policy} | {' | '.join(cells)} |"


def _ratio_bound(bound: str, other: str) -> str | None:
    """Return the sign before a ratio of two bounded shares, None where it tells nothing."""
    signs = {
        ("=", "="): "= ",
        ("<=", "="): "≤ ",
        (">", "="): "> ",
        ("=", ">"): "< ",
        ("<=", ">"): "< ",
        ("=", "<="): "≥ ",
        (">", "<="): "> ",
    }
    return signs.get((bound, other))


def _bounded(bound: str, share: float) -> str:
    return f"{ {'=': '', '<=': '≤ ', '>': '> '}[bound] }{share:.1%}"


def _number(value: float) -> str:
    return "-" if math.isnan(value) else f"{value:.4f}"


def _with_interval(interval: Interval, digits: int) -> str:
    if interval.value != interval.value:
        return "-"
    return f"{interval.value:.{digits}f} [{interval.low:.{digits}f}, {interval.high:.{digits}f}]"
