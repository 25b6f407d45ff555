"""`memdecay foresee` writes a head for one model, which the commands with a cache take."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from memdecay.runtime.foresight.head_file import load_head, save_head
from tests.cli.conftest import RunCommand


@pytest.fixture(scope="module")
def head_file(tiny_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a head fitted to two generated sessions, by the function behind the command."""
    from memdecay.cli.foresee import foresee

    out = tmp_path_factory.mktemp("head") / "foresight.json"
    foresee(out, None, 2, max_tokens=800, model=str(tiny_model), dtype="float32", device="cpu")
    return out


def test_the_head_is_for_its_model_and_run_takes_it(
    command: RunCommand, tiny_model: Path, labelled: Path, head_file: Path
) -> None:
    head = load_head(head_file)
    assert head.num_norms == 2 * 4 * 2
    assert "2 traces, 1600 tokens" in head.made_by
    run = command(
        "run", "--trace", labelled, "--model", tiny_model, "--tagger", "rules", "--budget", 160,
        "--foresight", head_file, "--max-new-tokens", 2,
    )  # fmt: skip
    assert run.exit_code == 0, run.err


def test_a_head_of_another_model_is_refused(
    command: RunCommand, tiny_model: Path, labelled: Path, head_file: Path, tmp_path: Path
) -> None:
    other = tmp_path / "other.json"
    save_head(other, replace(load_head(head_file), model="0123456789abcdef"))
    run = command(
        "run", "--trace", labelled, "--model", tiny_model, "--tagger", "rules", "--budget", 160,
        "--foresight", other,
    )  # fmt: skip
    assert run.exit_code == 2
    assert "was made for another language model" in run.error
    assert "Traceback" not in run.error


def test_the_bench_takes_it_and_an_ablation_leaves_it_out(
    command: RunCommand, tiny_model: Path, labelled: Path, head_file: Path, tmp_path: Path
) -> None:
    result = command(
        "bench", "quality", "--traces", labelled, "--model", tiny_model, "--limit", 1,
        "--policies", "memdecay@none,memdecay@none+no-foresight", "--budgets", 0.8,
        "--min-tokens", 250, "--max-scored", 16, "--probes", 1, "--continuation", 0,
        "--foresight", head_file, "--out", tmp_path / "bench",
    )  # fmt: skip
    assert result.exit_code == 0, result.err
    rows = json.loads((tmp_path / "bench" / "results.json").read_text())
    assert len({row["kl"] for row in rows}) == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "there is nothing to learn from"),
        (("--synthetic", 1), "expected two traces or more of at least 768 tokens, got 1"),
        (("--synthetic", 2, "--max-tokens", 100), "--max-tokens must be 768 or more"),
    ],
)
def test_too_little_to_learn_from_is_one_sentence(
    arguments: tuple[object, ...],
    message: str,
    command: RunCommand,
    tiny_model: Path,
    tmp_path: Path,
) -> None:
    outcome = command("foresee", "--out", tmp_path / "h.json", "--model", tiny_model, *arguments)
    assert outcome.exit_code == 2
    assert message in outcome.error
    assert "Traceback" not in outcome.error
    assert not (tmp_path / "h.json").exists()


def test_learned_runs_with_a_head(
    command: RunCommand, tiny_model: Path, labelled: Path, head_file: Path, tmp_path: Path
) -> None:
    run = command(
        "run", "--trace", labelled, "--model", tiny_model, "--policy", "learned", "--budget", 160,
        "--foresight", head_file, "--max-new-tokens", 2, "--json", tmp_path / "stats.json",
    )  # fmt: skip
    assert run.exit_code == 0, run.err
    stats = json.loads((tmp_path / "stats.json").read_text())
    assert stats["tokens_kept"] <= 160 < stats["tokens_seen"]


@pytest.mark.parametrize("arguments", [(), ("--foresight", "none")])
@pytest.mark.parametrize(
    "name",
    [
        ("run", "--policy", "learned"),
        ("serve", "--policy", "learned"),
        ("bench", "quality", "--policies", "tova,learned", "--traces", "x", "--out", "y"),
    ],
)
def test_learned_without_a_head_is_refused_before_the_model_is_loaded(
    name: tuple[str, ...], arguments: tuple[str, ...], tmp_path: Path, command: RunCommand
) -> None:
    # There is no such model: loading it would be the mistake that is told.
    outcome = command(*name, "--model", tmp_path / "none", *arguments)
    assert outcome.exit_code == 2
    assert "the policy 'learned' needs a foresight head" in outcome.error
    assert "make one with `memdecay foresee`" in outcome.error
    assert "Traceback" not in outcome.error


def test_a_modifier_that_takes_the_head_away_is_refused(
    command: RunCommand, labelled: Path, head_file: Path, tmp_path: Path
) -> None:
    outcome = command(
        "bench", "quality", "--traces", labelled, "--model", tmp_path / "none",
        "--policies", "learned+no-foresight", "--foresight", head_file, "--out", tmp_path / "bench",
    )  # fmt: skip
    assert outcome.exit_code == 2
    assert "needs a foresight head" in outcome.error


@pytest.mark.parametrize("has_head", [True, False])
def test_the_bench_compares_with_learned_unless_there_is_no_head(
    has_head: bool, command: RunCommand, tiny_model: Path, labelled: Path, head_file: Path,
    tmp_path: Path,
) -> None:  # fmt: skip
    head = ("--foresight", head_file) if has_head else ()
    result = command(
        "bench", "quality", "--traces", labelled, "--model", tiny_model, "--limit", 1,
        "--budgets", 0.8, "--min-tokens", 250, "--max-scored", 16, "--probes", 0,
        "--continuation", 0, *head, "--out", tmp_path / "bench",
    )  # fmt: skip
    assert result.exit_code == 0, result.err
    rows = json.loads((tmp_path / "bench" / "results.json").read_text())
    names = {row["policy"] for row in rows}
    assert ("learned" in names) == has_head
    assert {"tova", "keydiff", "memdecay"} <= names
