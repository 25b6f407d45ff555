"""Every mistake of a user is one sentence and exit code 2, and leaves nothing behind."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import RunCommand

GOOD = {"id": "a", "messages": [{"role": "user", "content": "hello there"}]}


def span(**changes: object) -> dict[str, object]:
    return {"message": 0, "start": 0, "end": 5, "region": "key_decision"} | changes


BAD_LINES = {
    "not JSON": ('{"id": ', "line 1"),
    "not an object": ("17", "line 1"),
    "no messages": (json.dumps({"id": "a", "messages": [], "spans": []}), "messages"),
    "unknown region": (json.dumps(GOOD | {"spans": [span(region="chat")]}), "chat"),
    "out of range": (json.dumps(GOOD | {"spans": [span(end=99)]}), "99"),
    "overlap": (json.dumps(GOOD | {"spans": [span(), span(start=3, end=8)]}), "overlap"),
    "no such message": (json.dumps(GOOD | {"spans": [span(message=4)]}), "message"),
    "empty file": ("", "no traces"),
}


@pytest.mark.parametrize("name", BAD_LINES)
def test_bad_labelled_file_is_one_sentence(name: str, tmp_path: Path, command: RunCommand) -> None:
    text, expected = BAD_LINES[name]
    path = tmp_path / "traces.jsonl"
    path.write_text(text + "\n" if text else "", encoding="utf-8")
    outcome = command("train", "--traces", path, "--out", tmp_path / "out")
    assert outcome.exit_code == 2
    assert "traces.jsonl" in outcome.error
    assert expected in outcome.error
    assert "Traceback" not in outcome.err
    assert outcome.error.count("error:") == 1
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("arguments", [["train", "--out", "x"], ["evaluate", "--classifier", "x"]])
def test_missing_required_option_is_a_usage_error(
    arguments: list[str], command: RunCommand
) -> None:
    outcome = command(*arguments)
    assert outcome.exit_code == 2
    assert "--traces" in outcome.error


def test_missing_trace_file_is_one_sentence(tmp_path: Path, command: RunCommand) -> None:
    outcome = command("run", "--trace", tmp_path / "none.jsonl")
    assert outcome.exit_code == 2
    assert "none.jsonl" in outcome.error
    assert "Traceback" not in outcome.err


def test_missing_model_is_one_sentence(tmp_path: Path, labelled: Path, command: RunCommand) -> None:
    outcome = command(
        "train", "--traces", labelled, "--model", tmp_path / "no-model", "--out", tmp_path / "out"
    )
    assert outcome.exit_code == 2
    assert "no-model" in outcome.error
    assert "Traceback" not in outcome.err
    assert not (tmp_path / "out").exists()


def test_budget_below_the_protected_tokens_is_one_sentence(
    labelled: Path, command: RunCommand
) -> None:
    outcome = command("run", "--trace", labelled, "--budget", 100)
    assert outcome.exit_code == 2
    assert "protected tokens" in outcome.error


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("--high-watermark", 1.5),
        ("--low-watermark", 2.0),
        ("--max-region-share", 0.0),
        ("--policy", "memory"),
    ],
)
def test_option_out_of_range_is_one_sentence(
    option: str, value: object, labelled: Path, tiny_model: Path, command: RunCommand
) -> None:
    outcome = command("run", "--trace", labelled, "--model", tiny_model, option, value)
    assert outcome.exit_code == 2
    assert str(value) in outcome.error
    assert "Traceback" not in outcome.err


def test_index_beyond_the_file_is_one_sentence(labelled: Path, command: RunCommand) -> None:
    outcome = command("run", "--trace", labelled, "--index", 500)
    assert outcome.exit_code == 2
    assert "none at index 500" in outcome.error


def test_unknown_id_is_one_sentence(labelled: Path, command: RunCommand) -> None:
    outcome = command("run", "--trace", labelled, "--id", "nobody")
    assert outcome.exit_code == 2
    assert "'nobody'" in outcome.error


@pytest.mark.parametrize("name", ["evaluate", "tag", "run"])
def test_folder_that_is_no_classifier_is_one_sentence(
    name: str, tmp_path: Path, labelled: Path, command: RunCommand
) -> None:
    option = "--traces" if name == "evaluate" else "--trace"
    outcome = command(name, "--classifier", tmp_path, option, labelled)
    assert outcome.exit_code == 2
    assert "card.json" in outcome.error


@pytest.mark.parametrize(
    ("name", "option", "place", "expected"),
    [
        ("train", "--out", "taken", "is a file, expected a folder"),
        ("evaluate", "--json", "folder", "is a folder, expected a file"),
        ("run", "--json", "taken/x.json", "is a file, expected a folder"),
        ("run", "--picture", "folder/..", "is a folder, expected a file"),
        ("demo", "--out", "taken", "is a file, expected a folder"),
    ],
)
def test_place_that_cannot_be_written_is_found_before_any_work(
    name: str,
    option: str,
    place: str,
    expected: str,
    labelled: Path,
    tiny_model: Path,
    tmp_path: Path,
    command: RunCommand,
) -> None:
    (tmp_path / "taken").write_text("a file")
    (tmp_path / "folder").mkdir()
    inputs: dict[str, list[object]] = {
        "train": ["--traces", labelled],
        "evaluate": ["--traces", labelled, "--classifier", tmp_path],
        "run": ["--trace", labelled],
        "demo": [],
    }
    outcome = command(name, *inputs[name], "--model", tiny_model, option, tmp_path / place)
    assert outcome.exit_code == 2
    assert expected in outcome.error
    assert not (tmp_path / "cache").exists()


@pytest.mark.parametrize(
    ("option", "value", "expected"),
    [
        ("--accelerator", "abacus", "abacus"),
        ("--devices", "0", "devices '0'"),
        ("--devices", "a,b", "devices 'a,b'"),
        ("--strategy", "hope", "hope"),
        ("--precision", "3", "precision '3'"),
        ("--dropout", "1", "dropout must lie in [0, 1)"),
        ("--learning-rate", "inf", "learning_rate must be a number above 0"),
        ("--weight-decay", "nan", "weight_decay must be a number from 0 on"),
        ("--context-tokens", "9999", "context_tokens must be at most"),
        ("--device", "meta", "device 'meta' is not supported"),
        ("--seed", "4294967296", "--seed"),
        ("--layer", "99", "layer must lie in 0 to 3"),
    ],
)
def test_training_option_that_does_not_fit_is_found_before_any_work(
    option: str,
    value: str,
    expected: str,
    labelled: Path,
    tiny_model: Path,
    tmp_path: Path,
    command: RunCommand,
) -> None:
    outcome = command(
        *("train", "--traces", labelled, "--model", tiny_model, "--out", tmp_path / "out"),
        *(option, value),
    )
    assert outcome.exit_code == 2
    assert expected in outcome.error
    assert not (tmp_path / "cache").exists()
    assert not (tmp_path / "out").exists()


def test_endless_temperature_is_found_before_any_work(
    labelled: Path, tmp_path: Path, command: RunCommand
) -> None:
    outcome = command(
        "run", "--trace", labelled, "--model", tmp_path / "none", "--temperature", "inf"
    )
    assert outcome.exit_code == 2
    assert "temperature must be 0 or above, got inf" in outcome.error


def run_process(*arguments: object, **options: Any) -> subprocess.CompletedProcess[str]:
    line = [sys.executable, "-c", "from memdecay.cli import main; main()", *map(str, arguments)]
    return subprocess.run(
        line, stderr=subprocess.PIPE, text=True, check=False, timeout=60, **options
    )


def test_output_that_cannot_be_written_is_one_sentence(labelled: Path) -> None:
    with Path("/dev/full").open("w") as full:
        done = run_process("validate", labelled, stdout=full)
    assert done.returncode == 2
    assert "No space left" in done.stderr
    assert "Traceback" not in done.stderr


def test_reader_that_has_gone_ends_the_command_quietly(labelled: Path) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    done = run_process("validate", labelled, stdout=writer)
    os.close(writer)
    assert done.returncode == 1
    assert done.stderr == ""


@pytest.mark.parametrize(("name", "is_resumable"), [("train", True), ("run", False)])
def test_interrupt_is_one_line_that_says_how_to_go_on(
    name: str,
    is_resumable: bool,
    labelled: Path,
    tiny_model: Path,
    tmp_path: Path,
    command: RunCommand,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(f"memdecay.cli.{name}.load_llm", interrupt)
    inputs = ["--traces", labelled, "--out", tmp_path / "out"]
    outcome = command(name, *(inputs if name == "train" else []), "--model", tiny_model)
    assert outcome.exit_code == 130
    assert outcome.error.startswith("interrupted")
    assert ("goes on where it stopped" in outcome.error) == is_resumable
