from __future__ import annotations

import json
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner, Result

from memdecay.classifier.errors import ConfigError
from memdecay.cli.label import label
from memdecay.cli.validate import validate
from memdecay.data.jsonl import read_traces


@pytest.fixture
def traces(tmp_path: Path) -> Path:
    path = tmp_path / "traces.jsonl"
    messages = [{"role": "user", "content": "Hi!"}, {"role": "assistant", "content": "Hello."}]
    spans = [{"message": 0, "start": 0, "end": 3, "region": "recent_dialogue"}]
    path.write_text(json.dumps({"id": "a", "messages": messages, "spans": spans}) + "\n")
    return path


def run(*arguments: object) -> Result:
    app = typer.Typer()
    app.command()(label)
    app.command()(validate)
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def test_rules_label_a_file(traces: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl"
    result = run("label", traces, "--out", out, "--report", "--json")
    figures = json.loads(result.stdout)
    assert result.exit_code == 0
    assert figures["against_gold"]["characters"] == 3
    assert len(next(read_traces(out)).spans) == 2


def test_the_report_is_a_table(traces: Path) -> None:
    result = run("label", traces, "--report")
    for name in ("coverage", "conflicts", "overruled", "accuracy", "role_default"):
        assert name in result.stdout
    assert "cohen_kappa" in result.stdout


def test_label_studio_both_ways(traces: Path, tmp_path: Path) -> None:
    tasks = tmp_path / "tasks.json"
    assert run("label", traces, "--export-studio", tasks).exit_code == 0
    assert tasks.with_suffix(".xml").exists()
    export = json.loads(tasks.read_text())
    for task in export:
        task["annotations"] = task.get("predictions", [])
    tasks.write_text(json.dumps(export))
    out = tmp_path / "out.jsonl"
    assert run("label", traces, "--import-studio", tasks, "--out", out).exit_code == 0
    assert list(read_traces(out)) == list(read_traces(traces))
    assert "1 traces, 3 characters" in run("label", traces, "--agreement", out).stdout


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ([], "nothing to do"),
        (["--import-studio", "x.json"], "needs --out"),
        (["--export-studio", "x.json", "--agreement", "y.jsonl"], "exclude each other"),
        (["--export-studio", "x.xml"], "ends in .json"),
        (["--export-studio", "x.json", "--out", "y.jsonl"], "writes nothing to --out"),
        (["--agreement", "x.jsonl", "--out", "y.jsonl"], "--agreement writes nothing to --out"),
    ],
)
def test_options_that_do_not_fit_are_refused(traces: Path, options: list[str], match: str) -> None:
    result = run("label", traces, *options)
    assert isinstance(result.exception, ConfigError)
    assert match in str(result.exception)


def test_validate_ends_with_2_on_errors_only(traces: Path, tmp_path: Path) -> None:
    assert run("validate", traces).exit_code == 0
    bad = tmp_path / "bad.jsonl"
    bad.write_text("{\n")
    result = run("validate", traces, bad, "--json")
    assert result.exit_code == 2
    assert [file["traces"] for file in json.loads(result.stdout)["files"]] == [1, 0]
