"""What the server is meant to reach, beside what it has reached."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from memdecay.serving.bench.contestants import MEMDECAY, TRANSFORMERS
from memdecay.serving.bench.figures import (
    EARLY_ROUND,
    ServerFigures,
    cached_to_uncached,
    late_to_early,
)
from memdecay.serving.bench.row import ServerRun

MOST_OF_TRANSFORMERS = 1 / 3
MOST_OF_UNCACHED = 1 / 5
MOST_OF_EARLY = 1.2


@dataclass(frozen=True, slots=True)
class TargetResult:
    """One target.

    Attributes:
        name: What is measured.
        wanted: What is wanted, for people.
        measured: What came, for people.
        is_met: Whether it was reached; None where it was not measured.
    """

    name: str
    wanted: str
    measured: str
    is_met: bool | None


def target_results(
    runs: Sequence[ServerRun], figures: Sequence[ServerFigures]
) -> list[TargetResult]:
    """Hold memdecay's run against the targets; nothing where it has none."""
    by_name = {run.name: run for run in runs}
    figures_by_name = {figure.name: figure for figure in figures}
    run, own = by_name.get(MEMDECAY), figures_by_name.get(MEMDECAY)
    if run is None or own is None:
        return []
    return [
        _against_transformers(own, figures_by_name),
        _first_token(run),
        _late(run),
        _memory(own),
        TargetResult("failed rounds", "0", str(own.num_failed), own.num_failed == 0),
    ]


def _against_transformers(own: ServerFigures, figures: Mapping[str, ServerFigures]) -> TargetResult:
    name, wanted = "total time / transformers serve", f"at most {MOST_OF_TRANSFORMERS:.2f}"
    other = figures.get(TRANSFORMERS)
    if other is None:
        return TargetResult(name, wanted, "not measured", None)
    ratio = own.total_s / other.total_s
    measured = f"{ratio:.2f} over {own.num_rounds} rounds of each agent"
    return TargetResult(name, wanted, measured, ratio <= MOST_OF_TRANSFORMERS)


def _first_token(run: ServerRun) -> TargetResult:
    name, wanted = "TTFT cached / uncached", f"at most {MOST_OF_UNCACHED:.2f}"
    ratios = cached_to_uncached(run)
    if not ratios:
        return TargetResult(name, wanted, "not measured", None)
    measured = ", ".join(f"{ratio:.3f} at round {number}" for number, ratio in ratios.items())
    return TargetResult(name, wanted, measured, max(ratios.values()) <= MOST_OF_UNCACHED)


def _late(run: ServerRun) -> TargetResult:
    found = late_to_early(run)
    name, wanted = f"last round / round {EARLY_ROUND}", f"at most {MOST_OF_EARLY}"
    if found is None:
        return TargetResult(name, wanted, "not measured", None)
    last, ratio = found
    return TargetResult(name, wanted, f"{ratio:.2f} at round {last}", ratio <= MOST_OF_EARLY)


def _memory(own: ServerFigures) -> TargetResult:
    name = "peak KV bytes"
    if own.kv_limit_bytes is None or own.peak_kv_bytes is None:
        return TargetResult(name, "as set", "not measured", None)
    return TargetResult(
        name,
        f"at most {own.kv_limit_bytes:,}",
        f"{own.peak_kv_bytes:,}",
        own.peak_kv_bytes <= own.kv_limit_bytes,
    )
