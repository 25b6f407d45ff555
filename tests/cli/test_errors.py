"""Every mistake of a user is one sentence and exit code 2, and leaves nothing behind."""

import json
from pathlib import Path

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
