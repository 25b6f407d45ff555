"""Runs in numbers, and the targets."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from memdecay.serving.bench.config import LoadConfig
from memdecay.serving.bench.contestants import MEMDECAY, TRANSFORMERS, CacheChoice, ModelChoice
from memdecay.serving.bench.figures import (
    cached_to_uncached,
    common_rounds,
    figures_of,
    late_to_early,
)
from memdecay.serving.bench.report import equal_figures, serving_table, write_serving_report
from memdecay.serving.bench.row import Probe, RoundRow, ServerRun
from memdecay.serving.bench.targets import target_results


def make_run(
    name: str = MEMDECAY, rounds: int = 30, agents: int = 2, slowness: float = 1.0, **more: Any
) -> ServerRun:
    """Return a run whose round ``n`` takes ``slowness * (1 + n / 100)`` seconds."""
    rows = []
    for agent in range(agents):
        end = 0.0
        for number in range(1, rounds + 1):
            total = slowness * (1 + number / 100)
            end += total
            rows.append(RoundRow(agent, number, end, total / 4, total, 100 * number, 90, 16))
    return ServerRun(name, "x", tuple(rows), **more)


def failed(agent: int, number: int) -> RoundRow:
    return RoundRow(agent, number, 99.0, 9.0, 9.0, None, None, None, "refused")


def test_figures_agree_with_numpy() -> None:
    run = make_run(rounds=30)
    figures = figures_of(run, 30)
    totals = [row.total_s for row in run.rows]
    assert figures.round_s == pytest.approx(np.median(totals))
    assert figures.round_p95_s == pytest.approx(np.percentile(totals, 95))
    assert figures.first_token_p95_s == pytest.approx(np.percentile(totals, 95) / 4)
    assert figures.total_s == pytest.approx(sum(totals) / 2)
    assert figures.requests_per_s == pytest.approx(60 / figures.total_s)
    assert figures.answer_tokens == 60 * 16
    assert figures.cached_share == pytest.approx(90 * 60 / sum(2 * 100 * n for n in range(1, 31)))
    assert len(figures.by_round) == 30


def test_contestants_are_compared_over_the_rounds_that_all_have_done() -> None:
    slow = make_run(TRANSFORMERS, rounds=12, slowness=5.0, was_cut=True)
    figures = equal_figures([make_run(rounds=30), slow])
    assert [figure.num_rounds for figure in figures] == [12, 12]
    assert figures[1].total_s == pytest.approx(5 * figures[0].total_s)


def test_a_failed_round_counts_as_failed_and_in_no_time() -> None:
    run = make_run(rounds=10)
    run = ServerRun("x", "x", (*run.rows, failed(0, 11), failed(1, 11)))
    assert common_rounds([run]) == 10
    figures = figures_of(run, 11)
    assert figures.num_failed == 2
    assert figures.total_s < 99


def test_a_run_without_rounds_that_count_is_refused() -> None:
    with pytest.raises(ValueError, match="no round up to 5"):
        figures_of(ServerRun("x", "x", (failed(0, 1),)), 5)


def test_late_rounds_are_held_against_the_20th() -> None:
    found = late_to_early(make_run(rounds=100))
    assert found is not None
    assert found[0] == 100
    # Medians of rounds 96 to 100 and 16 to 20.
    assert found[1] == pytest.approx(1.98 / 1.18)
    assert late_to_early(make_run(rounds=20)) is None


def test_cached_rounds_are_held_against_their_probes() -> None:
    run = make_run(rounds=30, probes=(Probe(20, 10.0, 2000), Probe(30, 20.0, 3000)))
    assert cached_to_uncached(run) == pytest.approx({20: 1.18 / 4 / 10, 30: 1.28 / 4 / 20})


def targets(*runs: ServerRun) -> dict[str, bool | None]:
    return {found.name: found.is_met for found in target_results(runs, equal_figures(runs))}


def test_targets_are_met_by_a_fast_server() -> None:
    run = make_run(rounds=30, probes=(Probe(30, 20.0, 3000),), peak_kv_bytes=10, kv_limit_bytes=10)
    assert set(targets(run, make_run(TRANSFORMERS, slowness=4.0)).values()) == {True}


def test_targets_are_missed_by_a_slow_server() -> None:
    rows = (*make_run(rounds=100).rows, failed(0, 101))
    run = ServerRun(MEMDECAY, "x", rows, (Probe(30, 0.5, 1),), None, 11, 10)
    assert set(targets(run, make_run(TRANSFORMERS, slowness=2.0)).values()) == {False}


def test_what_was_not_measured_is_said_to_be_so() -> None:
    met = targets(make_run(rounds=5))
    assert met.pop("failed rounds") is True
    assert set(met.values()) == {None}
    assert targets(make_run(TRANSFORMERS)) == {}


def test_a_run_survives_json() -> None:
    run = make_run(rounds=2, probes=(Probe(2, 1.0, None),), peak_rss_bytes=5)
    assert ServerRun.from_dict(json.loads(json.dumps(run.to_dict()))) == run


def test_the_report_has_tables_plots_and_machine_readable_results(tmp_path: Path) -> None:
    runs = [make_run(rounds=30), make_run(TRANSFORMERS, rounds=12, slowness=5.0, was_cut=True)]
    model, cache = ModelChoice("smollm2", "float32", "cpu"), CacheChoice(2048, None, 3)
    path = write_serving_report(tmp_path, runs, LoadConfig(num_agents=2), model, cache)
    summary = path.read_text()
    assert "The first 12 rounds" in summary
    assert "| memdecay | 30 |" in summary
    assert "| total time / transformers serve | at most 0.33 | 0.20" in summary
    data = json.loads((tmp_path / "results.json").read_text())
    assert [figure["num_rounds"] for figure in data["figures"]] == [12, 12]
    assert len(data["runs"][0]["rows"]) == 60
    assert serving_table(equal_figures(runs)).row_count == 2
    for name in ("first_token", "total"):
        assert (tmp_path / f"{name}.svg").is_file()
        assert (tmp_path / f"{name}.png").is_file()
