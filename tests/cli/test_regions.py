"""The commands that measure regions, and the file between them and `run`."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest

from memdecay.classifier.fingerprint import llm_fingerprint
from memdecay.classifier.llm import load_llm
from memdecay.classifier.region_file import read_region_settings, write_region_settings
from memdecay.classifier.region_settings import RegionSettings
from memdecay.cli import calibrate_regret
from memdecay.cli.calibrate_decay import print_section
from memdecay.cli.tagger import apply_regions
from memdecay.data.digests import trace_digest
from memdecay.data.jsonl import read_traces, write_traces
from memdecay.runtime.config import CacheConfig
from memdecay.training.calibration.section import Section, Table
from tests.cli.conftest import RunCommand
from tests.runtime.artifacts import random_artifact

NEEDED = ("--no-html", "--max-tokens", 300)


def test_decay_is_measured_and_run_takes_the_outcome(
    command: RunCommand, tiny_model: Path, labelled: Path, tmp_path: Path
) -> None:
    out = tmp_path / "decay"
    measured = command(
        "calibrate-decay", "--traces", labelled, "--model", tiny_model, "--out", out,
        "--min-age", 8, "--limit", 4, *NEEDED,
    )  # fmt: skip
    assert measured.exit_code == 0, measured.err
    settings = read_region_settings(out / "regions.toml")
    assert settings.model == str(tiny_model)
    figures = json.loads((out / "report.json").read_text())
    assert figures["traces"] == 4
    assert figures["region_table"] == settings.table.to_dict()
    assert "ordinary_context" in measured.out

    run = command(
        "run", "--trace", labelled, "--model", tiny_model, "--tagger", "rules", "--budget", 160,
        "--num-recent", 32, "--regions", out / "regions.toml", "--max-new-tokens", 4,
        "--json", tmp_path / "run.json",
    )  # fmt: skip
    assert run.exit_code == 0, run.err
    kept = json.loads((tmp_path / "run.json").read_text())["kept_per_region"]
    assert sum(count > 0 for count in kept.values()) > 1


def test_regret_of_the_rules_is_measured_once(
    command: RunCommand,
    tiny_model: Path,
    labelled: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    out = tmp_path / "regret"
    arguments = (
        "calibrate-regret", "--tagger", "rules", "--traces", labelled, "--model", tiny_model,
        "--out", out, "--limit", 4, "--budget", 200, "--max-tokens", 400, "--max-confusions", 1,
        "--max-scored", 20,
    )  # fmt: skip
    measured = command(*arguments)
    assert measured.exit_code == 0, measured.err
    figures = json.loads((out / "report.json").read_text())
    assert figures["traces"] + figures["traces_skipped"] == 4
    assert figures["kl"]["gold"]["value"] > 0
    assert figures["positions"] <= 20 * figures["traces"]
    assert "the rules" in measured.out

    # What is measured is not measured again.
    monkeypatch.setattr(calibrate_regret, "eviction_regret", None)
    again = command(*arguments)
    assert again.exit_code == 0, again.err
    assert json.loads((out / "report.json").read_text()) == figures


def test_regret_on_traces_of_the_training_is_said_to_flatter(
    command: RunCommand, tiny_model: Path, labelled: Path, tmp_path: Path
) -> None:
    model = load_llm(str(tiny_model), "float32", "cpu").model
    folder = random_artifact(tmp_path / "c", fingerprint=llm_fingerprint(model)).folder
    card = json.loads((folder / "card.json").read_text())
    card["trained_on"] = [trace_digest(trace) for trace in read_traces(labelled)][:1]
    (folder / "card.json").write_text(json.dumps(card))
    renamed = [dataclasses.replace(trace, id="a copy") for trace in read_traces(labelled)]
    write_traces(renamed, tmp_path / "renamed.jsonl")
    measured = command(
        *("calibrate-regret", "--classifier", folder, "--traces", tmp_path / "renamed.jsonl"),
        *("--model", tiny_model, "--out", tmp_path / "regret", "--limit", 2, "--budget", 200),
        *("--max-tokens", 400, "--max-confusions", 0, "--max-scored", 4),
    )
    assert measured.exit_code == 0, measured.err
    assert "was trained on 1 of these traces" in " ".join(measured.out.split())


def test_labels_are_audited(
    command: RunCommand, tiny_model: Path, labelled: Path, tmp_path: Path
) -> None:
    out = tmp_path / "doubtful.md"
    audited = command(
        "label", labelled, "--audit", "--model", tiny_model, "--out", out, "--max-tokens", 300
    )
    assert audited.exit_code == 0, audited.err
    assert "doubtful labels written" in audited.out
    assert out.read_text().startswith("# Labels that attention or the rules contradict")


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        (("run", "--tagger", "guess"), "unknown tagger 'guess'; expected classifier or rules"),
        (("run", "--tagger", "rules", "--classifier", "x"), "leave --classifier out"),
        (("run", "--model", "MODEL", "--regions", "x.toml"), "no token has one"),
        (("run", "--tagger", "rules", "--regions", "x.toml"), "x.toml can't be read"),
        (("label", "IN", "--audit"), "--audit needs --out"),
        (("label", "IN", "--audit", "--agreement", "IN"), "exclude each other"),
        (("calibrate-decay", "--traces", "IN", "--out", "OUT", "--threshold", "0"), "threshold"),
        (
            ("calibrate-regret", "--traces", "IN", "--out", "OUT", "--model", "MODEL"),
            "there is no tagger to judge",
        ),
        (
            ("calibrate-regret", "--traces", "IN", "--out", "OUT", "--tagger", "rules", "--budget",
             "100000", "--model", "MODEL", "--limit", "1"),
            "none of the 1 traces has an assistant's text behind 100000 tokens",
        ),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_said_in_one_line(
    command: RunCommand,
    labelled: Path,
    tiny_model: Path,
    tmp_path: Path,
    arguments: tuple[str, ...],
    match: str,
) -> None:
    places = {"IN": labelled, "OUT": tmp_path / "out", "MODEL": tiny_model}
    outcome = command(*(places.get(argument, argument) for argument in arguments))
    assert outcome.exit_code == 2
    assert match in outcome.error
    assert "Traceback" not in outcome.err


def test_shares_of_the_file_go_to_the_cache_where_it_names_any(tmp_path: Path) -> None:
    config = CacheConfig(1024, max_region_share=0.6)
    path = tmp_path / "regions.toml"
    write_region_settings(path, RegionSettings())
    assert apply_regions(config, read_region_settings(path)) == config
    write_region_settings(path, RegionSettings(max_shares=(None, 0.3, None, None, None)))
    applied = apply_regions(config, read_region_settings(path))
    assert applied.region_shares == (0.6, 0.3, 0.6, 0.6, 0.6)
    assert apply_regions(config, None) == config


def test_a_table_too_wide_for_the_terminal_is_told_in_lines_without_cuts(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    table = Table(("region", "initial score"), (("key_decision", "2.48 [1.76, 3.24]"),))
    section = Section("decay", "How [they] fade", ("text",), table=table)
    monkeypatch.setenv("NO_COLOR", "1")
    for width, shown in ((80, "│ 2.48 [1.76, 3.24] │"), (30, "initial score 2.48 [1.76,")):
        monkeypatch.setenv("COLUMNS", str(width))
        print_section(section)
        out = capsys.readouterr().out
        assert shown in " ".join(out.split())
        assert "…" not in out
        assert "[they]" in out
