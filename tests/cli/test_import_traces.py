from __future__ import annotations

import json
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from memdecay.classifier.errors import StorageError, TraceError
from memdecay.cli.import_traces import import_traces
from tests.cli.conftest import RunCommand
from tests.data.formats.samples import CHAT


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "in.jsonl"
    path.write_text(f"{json.dumps({'messages': CHAT})}\nbroken\n", encoding="utf-8")
    return path


@pytest.fixture
def app() -> typer.Typer:
    app = typer.Typer(pretty_exceptions_enable=False)
    app.command("import")(import_traces)
    return app


def test_the_command_writes_traces_and_says_what_it_did(
    app: typer.Typer, source: Path, tmp_path: Path
) -> None:
    out, report = tmp_path / "out.jsonl", tmp_path / "report.json"

    result = CliRunner().invoke(app, [str(source), "--out", str(out), "--json", str(report)])

    assert result.exit_code == 0
    assert "openai-chat, 1 traces, 5 messages" in result.output.replace("\n", "")
    assert "skipped 1 x line that is no JSON (first: line 2)" in result.output
    assert len(out.read_text().splitlines()) == 1
    assert json.loads(report.read_text())["files"][0]["traces"] == 1


def test_a_fault_of_the_input_raises_our_error(source: Path, tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="no format is called 'word'"):
        import_traces([source], tmp_path / "out.jsonl", "word")


def test_a_report_that_cannot_be_written_raises(source: Path, tmp_path: Path) -> None:
    with pytest.raises(StorageError, match=r"r\.json could not be written"):
        import_traces([source], tmp_path / "out.jsonl", report=source / "r.json")


def test_nothing_imported_is_a_fault_that_the_account_explains(
    tmp_path: Path, command: RunCommand
) -> None:
    source, out, report = (tmp_path / name for name in ("in.jsonl", "out.jsonl", "report.json"))
    source.write_text(f"{json.dumps({'messages': []})}\n", encoding="utf-8")
    out.write_text("as it was")

    outcome = command("import", source, "--out", out, "--json", report, "--format", "openai-chat")

    assert outcome.exit_code == 2
    assert "no traces found" in outcome.error
    assert "openai-chat, 0 traces, 0 messages" in outcome.out.replace("\n", "")
    assert "skipped 1 x" in outcome.out
    assert json.loads(report.read_text())["files"][0]["traces"] == 0
    assert out.read_text() == "as it was"


def test_one_file_with_traces_is_enough(source: Path, tmp_path: Path, command: RunCommand) -> None:
    empty = tmp_path / "empty.jsonl"
    empty.write_text(f"{json.dumps({'messages': []})}\n", encoding="utf-8")

    outcome = command("import", empty, source, "--out", tmp_path / "out.jsonl")

    assert outcome.exit_code == 0
    assert "1 traces written" in outcome.out
