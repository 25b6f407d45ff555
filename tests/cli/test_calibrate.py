"""`memdecay calibrate` end to end on a tiny random model."""

import json
import sys
from pathlib import Path

import pytest

from memdecay.classifier.fingerprint import llm_fingerprint
from memdecay.classifier.llm import load_llm
from memdecay.training.calibration import Section
from memdecay.training.calibration.verdict.verdict import Status
from memdecay.training.decay.files import write_section
from tests.cli.conftest import Outcome, RunCommand
from tests.runtime.artifacts import random_artifact


@pytest.fixture(scope="module")
def classifier(tmp_path_factory: pytest.TempPathFactory, tiny_model: Path) -> Path:
    """Return a classifier with random weights for the tiny model."""
    folder = tmp_path_factory.mktemp("classifier")
    model = load_llm(str(tiny_model), "float32", "cpu").model
    return random_artifact(folder, fingerprint=llm_fingerprint(model)).folder


@pytest.fixture
def calibrate(command: RunCommand, classifier: Path, labelled: Path, tiny_model: Path):  # noqa: ANN201
    """Return a function that runs `memdecay calibrate` with further arguments."""

    def run(*arguments: object) -> Outcome:
        return command(
            "calibrate",
            *("--classifier", classifier, "--traces", labelled, "--model", tiny_model),
            *arguments,
        )

    return run


def test_report_has_the_keys_of_evaluate(
    calibrate: RunCommand,
    command: RunCommand,
    classifier: Path,
    labelled: Path,
    tiny_model: Path,
    tmp_path: Path,
) -> None:
    outcome = calibrate("--out", tmp_path / "report")
    assert outcome.exit_code == 0, outcome.err
    names = {path.name for path in (tmp_path / "report").iterdir()}
    assert names == {"index.html", "report.json", "report.md"}
    data = json.loads((tmp_path / "report" / "report.json").read_text())
    assert data["verdict"]["title"] in outcome.out
    assert data["verdict"]["status"] in set(Status)
    command(
        "evaluate",
        *("--classifier", classifier, "--traces", labelled, "--model", tiny_model),
        *("--json", tmp_path / "figures.json"),
    )
    evaluated = json.loads((tmp_path / "figures.json").read_text())
    assert {key: data[key] for key in evaluated} == evaluated


def test_no_drift_against_itself(calibrate: RunCommand, tmp_path: Path) -> None:
    calibrate("--out", tmp_path / "one", "--no-html")
    outcome = calibrate(
        *("--out", tmp_path / "two", "--no-html", "--no-text"),
        *("--baseline", tmp_path / "one", "--fail-on-drift"),
    )
    assert outcome.exit_code == 0
    assert "No drift" in outcome.out
    data = json.loads((tmp_path / "two" / "report.json").read_text())
    assert all(span["text"] is None for span in data["worst_spans"])
    assert not (tmp_path / "two" / "index.html").exists()


@pytest.mark.parametrize(("options", "exit_code"), [((), 0), (("--fail-on-drift",), 1)])
def test_drift_fails_only_where_asked(
    options: tuple[str, ...], exit_code: int, calibrate: RunCommand, tmp_path: Path
) -> None:
    calibrate("--out", tmp_path / "one", "--no-html")
    path = tmp_path / "one" / "report.json"
    data = json.loads(path.read_text())
    for row in data["per_trace"]:  # As if it had been right always.
        counts = [sum(row["confusion"][start : start + 5]) for start in range(0, 25, 5)]
        row["confusion"] = [counts[i // 5] if i % 6 == 0 else 0 for i in range(25)]
    path.write_text(json.dumps(data))
    outcome = calibrate("--out", tmp_path / "two", "--no-html", "--baseline", path, *options)
    assert outcome.exit_code == exit_code
    assert "Drifted: " in outcome.out


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("--fail-on-drift",), "add --baseline"),
        (("--baseline", "nowhere"), "does not exist"),
        (("--target-accuracy", 2), "target_accuracy must lie above 0"),
    ],
)
def test_mistakes_are_one_sentence(
    arguments: tuple[object, ...], reason: str, calibrate: RunCommand, tmp_path: Path
) -> None:
    outcome = calibrate("--out", tmp_path / "report", *arguments)
    assert outcome.exit_code == 2
    assert reason in outcome.error
    assert not (tmp_path / "report").exists()


def test_sections_of_other_commands_are_shown(calibrate: RunCommand, tmp_path: Path) -> None:
    section = Section(key="decay", title="How regions fade", data={"half_life": 9})
    write_section(section, tmp_path / "decay")
    options = ("--out", tmp_path / "report", "--section", tmp_path / "decay")
    assert calibrate(*options).exit_code == 0
    assert "How regions fade" in (tmp_path / "report" / "index.html").read_text(encoding="utf-8")
    data = json.loads((tmp_path / "report" / "report.json").read_text())
    assert data["extensions"] == {"decay": {"half_life": 9}}
    twice = calibrate(*options, "--section", tmp_path / "decay")
    assert twice.exit_code == 2
    assert "parts of the same kind" in twice.error


@pytest.mark.parametrize("library", ["matplotlib", "jinja2", "nervaluate"])
def test_missing_library_is_named(
    library: str, calibrate: RunCommand, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, library, None)
    outcome = calibrate("--out", tmp_path / "report")
    assert outcome.exit_code == 2
    assert f"need {library}" in outcome.error.replace("needs", "need")
    assert "memdecay[report]" in outcome.error
