"""`memdecay bench quality` end to end on a tiny random model."""

import json
from pathlib import Path

import pytest

from memdecay.classifier.pretrained import pretrained_folder
from memdecay.cli import bench_quality
from memdecay.data.jsonl import read_traces, write_traces
from memdecay.data.trace import Trace
from tests.cli.conftest import Outcome, RunCommand

KEYS = {
    *("trace", "policy", "budget", "kv_bytes", "kl", "kl_tool", "kl_copied", "delta_nll", "top1"),
    *("retention", "recall", "continuation_equal"),
}


@pytest.fixture(scope="module")
def traces(labelled: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a file of three labelled traces that the tiny model can read."""
    path = tmp_path_factory.mktemp("bench") / "traces.jsonl"
    found = sorted(read_traces(labelled), key=lambda trace: trace.num_characters)
    write_traces(found[:3], path)
    return path


def bench(command: RunCommand, traces: Path, model: Path, out: Path, *more: object) -> Outcome:
    return command(
        *("bench", "quality", "--traces", traces, "--out", out, "--model", model),
        *("--min-tokens", 64, "--max-tokens", 100_000, "--limit", 2, "--max-scored", 32),
        *("--chunk", 32, "--num-recent", 16, "--probes", 1, "--continuation", 2, *more),
    )


def test_bench_writes_rows_tables_and_plots(
    traces: Path, tiny_model: Path, tmp_path: Path, command: RunCommand
) -> None:
    pytest.importorskip("matplotlib")
    policies = "full,window,streaming,snapkv,memdecay@gold"
    # A budget that is named twice is one.
    options = ("--policies", policies, "--budgets", "0.5,0.3,0.50")

    outcome = bench(command, traces, tiny_model, tmp_path / "out", *options)

    assert outcome.exit_code == 0, outcome.err
    rows = json.loads((tmp_path / "out" / "results.json").read_text())
    assert len(rows) == 2 * (1 + 4 * 2)
    assert all(set(row) >= KEYS for row in rows)
    assert {row["kl"] for row in rows if row["policy"] == "full"} == {0.0}
    assert all(row["kv_bytes"] <= row["budget"] * row["full_bytes"] * 1.001 for row in rows)
    summary = (tmp_path / "out" / "summary.md").read_text()
    for text in ("30.0% of the full", "50.0% of the full", "memdecay@gold", "Memory at equal"):
        assert text in summary
    assert "ordinary_context, 512-2047" in summary
    assert "nan" not in summary
    for name in ("kl.svg", "kl.png", "retention.svg"):
        assert (tmp_path / "out" / name).stat().st_size > 1000
    assert "Mean KL" in outcome.out

    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "out" / "rows").iterdir()}
    again = bench(command, traces, tiny_model, tmp_path / "out", *options)
    assert again.exit_code == 0
    after = {path: path.stat().st_mtime_ns for path in (tmp_path / "out" / "rows").iterdir()}
    assert after == before


def test_the_product_is_measured_with_the_regions_that_it_runs_with(tiny_model: Path) -> None:
    packaged = bench_quality._artifact(None, "smollm2")

    assert packaged is not None
    assert packaged.folder == pretrained_folder("smollm2")
    assert bench_quality._artifact("rules", "smollm2") is None
    assert bench_quality._artifact(None, str(tiny_model)) is None


def test_selection_names_the_traces(
    traces: Path, tiny_model: Path, tmp_path: Path, command: RunCommand
) -> None:
    wanted = [trace.id for trace in read_traces(traces)][1]
    select = tmp_path / "select.json"
    select.write_text(json.dumps({"traces": [wanted]}))
    options = ("--policies", "window", "--budgets", "0.5", "--select", select)

    outcome = bench(command, traces, tiny_model, tmp_path / "out", *options)

    assert outcome.exit_code == 0, outcome.err
    rows = json.loads((tmp_path / "out" / "results.json").read_text())
    assert [row["trace"] for row in rows] == [wanted]


@pytest.mark.parametrize(
    ("options", "error"),
    [
        (("--policies", "lru"), "unknown policy 'lru'"),
        (("--policies", ","), "--policies names nothing"),
        (("--budgets", "0.5,2"), "above 0 and at most 1, got '2'"),
        (("--budgets", "half"), "got 'half'"),
        (("--policies", "memdecay@classifier"), "which was not given"),
        (("--max-tokens", 70), "no trace of 64 to 70 tokens"),
        (("--budgets", "0.01"), "longer traces or a larger budget"),
        (("--kv-dtype", "int3"), "kv_dtype must be one of"),
        (("--select", "nowhere.json"), "can't be read as JSON"),
    ],
)
def test_mistakes_are_one_line(
    options: tuple[str, ...],
    error: str,
    traces: Path,
    tiny_model: Path,
    tmp_path: Path,
    command: RunCommand,
) -> None:
    outcome = bench(command, traces, tiny_model, tmp_path / "out", *options)

    assert outcome.exit_code == 2
    assert error in outcome.error
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("text", ["[]", '{"traces": []}', '{"traces": [1]}'])
def test_selection_of_another_shape_is_refused(
    text: str, traces: Path, tiny_model: Path, tmp_path: Path, command: RunCommand
) -> None:
    (tmp_path / "select.json").write_text(text)
    options = ("--select", tmp_path / "select.json")

    outcome = bench(command, traces, tiny_model, tmp_path / "out", *options)

    assert outcome.exit_code == 2
    assert "a list of ids" in outcome.error


def test_selection_of_traces_that_are_not_there_is_refused(
    traces: Path, tiny_model: Path, tmp_path: Path, command: RunCommand
) -> None:
    (tmp_path / "select.json").write_text('{"traces": ["elsewhere/1"]}')
    options = ("--select", tmp_path / "select.json")

    outcome = bench(command, traces, tiny_model, tmp_path / "out", *options)

    assert outcome.exit_code == 2
    assert "'elsewhere/1'" in outcome.error


def test_gold_regions_need_labels(
    traces: Path, tiny_model: Path, tmp_path: Path, command: RunCommand
) -> None:
    plain = tmp_path / "plain.jsonl"
    write_traces([Trace(trace.id, trace.messages) for trace in read_traces(traces)], plain)

    outcome = bench(command, plain, tiny_model, tmp_path / "out", "--policies", "memdecay@gold")

    assert outcome.exit_code == 2
    assert "give labelled traces" in outcome.error
