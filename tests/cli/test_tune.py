"""`memdecay tune` writes settings that `memdecay run` takes, and goes on where it was."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from memdecay.classifier.region_file import read_region_settings
from memdecay.data.jsonl import read_traces
from memdecay.runtime.tuning import gather
from memdecay.runtime.tuning.evaluate import SnapshotJudge
from tests.cli.conftest import RunCommand

FAST = ("--budget", 0.9, "--next-tokens", 48, "--max-evaluations", 3, "--limit", 8)


def test_weights_are_fitted_and_run_takes_them(
    command: RunCommand,
    tiny_model: Path,
    labelled: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    out = tmp_path / "regions.toml"
    arguments = ("tune", "--traces", labelled, "--model", tiny_model, "--out", out, *FAST)
    tuned = command(*arguments)
    assert tuned.exit_code == 0, tuned.err
    settings = read_region_settings(out)
    assert (settings.model, settings.made_by) == (str(tiny_model), "memdecay tune")
    report = json.loads((tmp_path / "regions.report.json").read_text())
    table, weights = report["stages"]
    assert weights["num_evaluations"] == 3
    assert {moment["is_test"] for moment in weights["moments"]} == {True, False}
    assert {moment["is_test"] for moment in table["moments"]} == {True}
    for name in ("table", "weights"):
        assert f"KL over that without regions, traces left out of the {name}: " in tuned.out
    assert (tmp_path / "regions.report.md").exists()

    run = command(
        "run", "--trace", labelled, "--model", tiny_model, "--tagger", "rules", "--budget", 160,
        "--regions", out, "--max-new-tokens", 2,
    )  # fmt: skip
    assert run.exit_code == 0, run.err

    monkeypatch.setattr(SnapshotJudge, "judge", None)
    monkeypatch.setattr(gather, "read_evidence", None)
    again = command(*arguments)
    assert again.exit_code == 0, again.err
    assert json.loads((tmp_path / "regions.report.json").read_text()) == report


def test_gold_regions_are_taken_from_labels(
    command: RunCommand, tiny_model: Path, labelled: Path, tmp_path: Path
) -> None:
    tuned = command(
        "tune", "--traces", labelled, "--model", tiny_model, "--classifier", "gold",
        "--out", tmp_path / "regions.toml", *FAST, "--max-evaluations", 1,
    )  # fmt: skip
    assert tuned.exit_code == 0, tuned.err


def test_stages_and_what_never_fades_are_chosen(
    command: RunCommand, tiny_model: Path, labelled: Path, tmp_path: Path
) -> None:
    out = tmp_path / "regions.toml"
    for stages in ("table", "weights"):
        tuned = command(
            "tune", "--traces", labelled, "--model", tiny_model, "--out", out, *FAST,
            "--stages", stages, "--keep", "system_instruction", "--keep", "key_decision",
            "--max-evaluations", 1,
        )  # fmt: skip
        assert tuned.exit_code == 0, tuned.err
        report = json.loads((tmp_path / "regions.report.json").read_text())
        (stage,) = report["stages"]
        assert stage["name"] == stages
        for table in (stage["fitted"]["table"], report["given"]["table"]):
            assert table["system_instruction"]["decay"] == 0
            assert table["key_decision"]["decay"] == 0
        assert report["given"]["table"]["ordinary_context"]["decay"] > 0


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        (("--test-share", "1"), "--test-share must be above 0 and below 1, got 1.0"),
        (("--budget", "0"), "budget must be above 0 and at most 1, got 0.0"),
        (("--classifier", "nowhere"), "nowhere"),
        (("--stages", "table,weight"), "--stages must be one or more of table, weights, joined"),
        (("--stages", ""), "--stages must be one or more of table, weights, joined by commas"),
        (("--limit", "2"), "or fit no table with --stages weights"),
        (("--keep", "plans"), "--keep: unknown region 'plans'; expected one of"),
        (("--regions", "none.toml"), "none.toml can't be read"),
        (("--max-tokens", "40"), "expected long traces of 2 tasks or more, to fit and test, got 0"),
    ],
)
def test_what_does_not_fit_is_said_in_one_line(
    command: RunCommand,
    tiny_model: Path,
    labelled: Path,
    tmp_path: Path,
    arguments: tuple[str, ...],
    match: str,
) -> None:
    outcome = command(
        "tune", "--traces", labelled, "--model", tiny_model, "--out", tmp_path / "regions.toml",
        *FAST, *arguments,
    )  # fmt: skip
    assert outcome.exit_code == 2
    assert match in outcome.error
    assert "Traceback" not in outcome.err
    assert not (tmp_path / "regions.toml").exists()


def test_gold_regions_need_labels(
    command: RunCommand, tiny_model: Path, labelled: Path, tmp_path: Path
) -> None:
    plain = tmp_path / "plain.jsonl"
    lines = [json.loads(line) for line in labelled.read_text().splitlines()]
    for line in lines:
        line.pop("spans")
    plain.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert list(read_traces(plain))
    outcome = command(
        "tune", "--traces", plain, "--model", tiny_model, "--classifier", "gold",
        "--out", tmp_path / "regions.toml", *FAST,
    )  # fmt: skip
    assert outcome.exit_code == 2
    assert "takes the regions from labels, but the trace" in outcome.error
