from __future__ import annotations

import json
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from memdecay.classifier.errors import StorageError, TraceError
from memdecay.cli.import_traces import import_traces
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
