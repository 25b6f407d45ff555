"""`memdecay bench speed` end to end on tiny random models."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Outcome, RunCommand
from tests.runtime.bench.test_speed import TINY_CONFIG


def bench(command: RunCommand, out: Path, *more: object) -> Outcome:
    return command(
        *("bench", "speed", "--out", out, "--seen", "48,96", "--steps", 4, "--budget", 40),
        *("--num-recent", 8, "--chunk", 16, "--device", "cpu", "--dtype", "float32", *more),
    )


def test_a_model_of_random_weights_is_timed_without_any_file(
    tmp_path: Path, command: RunCommand
) -> None:
    config = tmp_path / "config.json"
    config.write_text(json.dumps(TINY_CONFIG))
    out = tmp_path / "out"

    outcome = bench(command, out, "--random-weights", config, "--policies", "memdecay")

    assert outcome.exit_code == 0, outcome.err
    rows = json.loads((out / "results.json").read_text())["rows"]
    assert [(row["seen"], row["policy"]) for row in rows] == [
        (seen, policy) for seen in (48, 96) for policy in ("DynamicCache", "memdecay")
    ]
    assert "tagging" in rows[-1]["parts_ms"]
    assert "DynamicCache" in outcome.out
    assert (out / "summary.md").is_file()


def test_a_loaded_model_is_timed_with_a_share_as_its_budget(
    tmp_path: Path, tiny_model: Path, command: RunCommand
) -> None:
    out = tmp_path / "out"
    options = ("--model", tiny_model, "--policies", "window@none", "--budget", "0.5")
    outcome = bench(command, out, *options)
    assert outcome.exit_code == 0, outcome.err
    rows = json.loads((out / "results.json").read_text())["rows"]
    assert [row["budget_tokens"] for row in rows] == [None, 24, None, 48]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (("--policies", "nope"), "unknown policy"),
        (("--policies", ","), "names nothing"),
        (("--policies", "memdecay@gold"), "can't time memdecay@gold"),
        (("--seen", "many"), "whole numbers"),
        (("--seen", ""), "seen must be"),
        (("--budget", "lots"), "0.125"),
        (("--budget", "2.5"), "budget must be"),
        (("--kv-dtype", "int3"), "kv_dtype must be"),
        (("--budget", "9"), "no room"),
        (("--random-weights", "nowhere.json"), "configuration"),
        (("--classifier", "nowhere"), "nowhere"),
    ],
)
def test_a_mistake_is_one_line(
    options: tuple[str, str],
    expected: str,
    tmp_path: Path,
    tiny_model: Path,
    command: RunCommand,
) -> None:
    outcome = bench(command, tmp_path / "out", "--model", tiny_model, *options)
    assert outcome.exit_code == 2
    assert expected in outcome.error
    assert "Traceback" not in outcome.err
