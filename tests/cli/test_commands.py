"""The commands end to end on a tiny random model."""

import dataclasses
import json
import shutil
from itertools import pairwise
from pathlib import Path

import pytest

from memdecay.classifier.artifact import load_artifact
from memdecay.classifier.regions import REGION_LABELS, Region
from memdecay.data.jsonl import read_traces, write_traces
from memdecay.data.trace import Span
from tests.cli.conftest import Outcome, RunCommand, exit_code


@pytest.fixture(scope="module")
def classifier(tmp_path_factory: pytest.TempPathFactory, tiny_model: Path, labelled: Path) -> Path:
    """Return a classifier trained through the command line."""
    folder = tmp_path_factory.mktemp("classifier")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MEMDECAY_CACHE", str(folder / "cache"))
        code = exit_code(
            *("train", "--traces", labelled, "--model", tiny_model, "--out", folder / "c"),
            *("--max-epochs", 2, "--synthetic", 1),
        )
    assert code == 0
    return folder / "c"


def test_train_writes_a_whole_classifier(classifier: Path) -> None:
    names = {path.name for path in classifier.iterdir()}
    assert {"classifier.onnx", "card.json", "checkpoint.safetensors", "README.md"} <= names
    assert not [name for name in names if name.startswith(".")]


def test_evaluate_writes_the_promised_keys(
    classifier: Path, labelled: Path, tiny_model: Path, tmp_path: Path, command: RunCommand
) -> None:
    figures = tmp_path / "figures.json"
    outcome = command(
        "evaluate",
        *("--classifier", classifier, "--traces", labelled, "--model", tiny_model),
        *("--json", figures),
    )
    assert outcome.exit_code == 0
    data = json.loads(figures.read_text())
    assert {"macro_f1", "per_region", "ece", "tokens"} <= set(data)
    assert set(data["per_region"]) == set(REGION_LABELS)
    assert data["trained_on"] > 0
    assert "figures flatter it" in outcome.out


def test_classifier_of_another_model_is_refused(
    classifier: Path, labelled: Path, tmp_path: Path, command: RunCommand
) -> None:
    from tests.tiny import tiny_llama, tiny_tokenizer

    tiny_llama(hidden_size=64).save_pretrained(tmp_path / "other")
    tiny_tokenizer().save_pretrained(tmp_path / "other")
    outcome = command(
        "evaluate",
        *("--classifier", classifier, "--traces", labelled, "--model", tmp_path / "other"),
    )
    assert outcome.exit_code == 2
    assert "hidden size" in outcome.error


def test_tag_as_json_covers_the_text_in_order(
    classifier: Path, labelled: Path, tiny_model: Path, command: RunCommand
) -> None:
    outcome = command(
        "tag", "--classifier", classifier, "--trace", labelled, "--model", tiny_model, "--json"
    )
    data = json.loads(outcome.out)
    spans = data["spans"]
    assert spans[0]["start"] == 0
    assert spans[-1]["end"] == len(data["text"])
    assert all(left["end"] <= right["start"] for left, right in pairwise(spans))
    assert {span["region"] for span in spans} <= set(REGION_LABELS)


def test_tag_shows_every_message(
    classifier: Path, labelled: Path, tiny_model: Path, command: RunCommand
) -> None:
    outcome = command(
        "tag", "--classifier", classifier, "--trace", labelled, "--model", tiny_model, "--index", 1
    )
    trace = list(read_traces(labelled))[1]
    for message in trace.messages:
        assert message.content in outcome.out
    for label in REGION_LABELS:
        assert label in outcome.out


def test_tag_shows_control_characters_as_signs(
    classifier: Path, tiny_model: Path, tmp_path: Path, command: RunCommand
) -> None:
    path = tmp_path / "hostile.jsonl"
    message = {"role": "tool", "content": "red \x1b[31mtext\x1b[0m and \x07 bell"}
    path.write_text(json.dumps({"id": "a", "messages": [message]}) + "\n")
    outcome = command("tag", "--classifier", classifier, "--trace", path, "--model", tiny_model)
    assert outcome.exit_code == 0
    assert "\x1b[31m" not in outcome.out
    assert "\x07" not in outcome.out
    assert "\u241b[31mtext" in outcome.out


def run_trace(command: RunCommand, labelled: Path, tiny_model: Path, *more: object) -> Outcome:
    return command(
        "run",
        *("--trace", labelled, "--model", tiny_model, "--budget", 160, "--num-recent", 32),
        *("--max-new-tokens", 4, *more),
    )


@pytest.mark.parametrize("policy", ["window", "streaming", "region", "memdecay", "full"])
def test_run_stays_within_its_budget(
    policy: str,
    classifier: Path,
    labelled: Path,
    tiny_model: Path,
    tmp_path: Path,
    command: RunCommand,
) -> None:
    figures = tmp_path / "stats.json"
    outcome = run_trace(
        command,
        labelled,
        tiny_model,
        *("--policy", policy, "--json", figures),
        *("--classifier", classifier),
    )
    assert outcome.exit_code == 0, outcome.err
    stats = json.loads(figures.read_text())
    per_token = stats["full_cache_bytes"] / stats["tokens_seen"]
    kept, evicted = stats["kept_per_region"].values(), stats["evicted_per_region"].values()
    assert sum(kept) + sum(evicted) == stats["tokens_seen"]
    if policy == "full":
        assert sum(evicted) == 0
    else:
        assert stats["tokens_seen"] > 160
        assert stats["peak_kv_bytes"] <= 160 * per_token


def test_run_draws_a_picture(
    labelled: Path, tiny_model: Path, tmp_path: Path, command: RunCommand
) -> None:
    pytest.importorskip("matplotlib")
    outcome = run_trace(command, labelled, tiny_model, "--picture", tmp_path / "cache.png")
    assert outcome.exit_code == 0
    assert (tmp_path / "cache.png").read_bytes().startswith(b"\x89PNG")


def test_run_refuses_an_unknown_picture_format(
    labelled: Path, tiny_model: Path, tmp_path: Path, command: RunCommand
) -> None:
    pytest.importorskip("matplotlib")
    outcome = run_trace(command, labelled, tiny_model, "--picture", tmp_path / "cache.doc")
    assert outcome.exit_code == 2
    assert "no picture format" in outcome.error
    assert list(tmp_path.glob("*cache.doc*")) == []


def test_typed_session_answers_and_ends(
    tiny_model: Path, command: RunCommand, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = iter(["hello", "", "and again", "/quit"])
    monkeypatch.setattr("rich.console.Console.input", lambda *_, **__: next(lines))
    outcome = command("run", "--model", tiny_model, "--budget", 200, "--max-new-tokens", 3)
    assert outcome.exit_code == 0
    assert outcome.out.count("assistant") == 2
    assert "tokens kept" in outcome.out


def test_default_classifier_of_another_model_is_refused(
    labelled: Path, tiny_model: Path, command: RunCommand
) -> None:
    for arguments in (
        ("tag", "--trace", labelled),
        ("evaluate", "--traces", labelled),
        ("run", "--trace", labelled, "--classifier", "default"),
    ):
        outcome = command(*arguments, "--model", tiny_model)
        assert outcome.exit_code == 2
        assert "brings no classifier for" in outcome.error
        assert "train one with" in outcome.error


def test_figures_go_into_the_card(
    classifier: Path, labelled: Path, tiny_model: Path, tmp_path: Path, command: RunCommand
) -> None:
    copy = Path(shutil.copytree(classifier, tmp_path / "copy"))
    outcome = command(
        "evaluate",
        *("--classifier", copy, "--traces", labelled, "--model", tiny_model, "--into-card"),
    )
    assert outcome.exit_code == 0
    artifact = load_artifact(copy)
    figures = artifact.card.metrics["evaluations"][labelled.name]
    assert figures["tokens"] > 0
    readme = (copy / "README.md").read_text()
    assert f"in `{labelled.name}`: macro-F1 {figures['macro_f1']:.3f}" in readme
    assert "It has seen no recorded run" in readme


def test_generated_traces_are_trained_on_beside_recorded_ones(classifier: Path) -> None:
    card = load_artifact(classifier).card
    own = card.training["train_traces"] - 1
    assert card.training["generated_traces"] + card.training["recorded_traces"] == (
        own + 1 + card.training["validation_traces"] + card.training["test_traces"]
    )


def test_train_shows_and_keeps_the_baselines(classifier: Path) -> None:
    baselines = load_artifact(classifier).card.metrics["baselines"]
    assert set(baselines) == {"position and role only", "rules"}
    tokens = load_artifact(classifier).card.metrics["tokens"]
    assert {figures["tokens"] for figures in baselines.values()} == {tokens}
    assert "| position and role only |" in (classifier / "README.md").read_text()


def test_sources_are_held_out_in_turn(
    labelled: Path, tiny_model: Path, tmp_path: Path, command: RunCommand
) -> None:
    outcome = command(
        "cross-validate",
        *("--traces", labelled, "--model", tiny_model, "--out", tmp_path / "out"),
        *("--folds", 2, "--max-epochs", 1, "--synthetic", 0),
    )
    assert outcome.exit_code == 0, outcome.err
    for word in ("position and role only", "rules", "classifier", "2 folds", "ECE"):
        assert word in outcome.out
    assert json.loads((tmp_path / "out" / "results.json").read_text())["taggers"]


def test_more_folds_than_sources_are_one_sentence(
    labelled: Path, tiny_model: Path, tmp_path: Path, command: RunCommand
) -> None:
    outcome = command(
        "cross-validate",
        *("--traces", labelled, "--model", tiny_model, "--out", tmp_path / "out"),
        *("--folds", 99),
    )
    assert outcome.exit_code == 2
    assert "folds must lie in 2 to" in outcome.error
    assert "Traceback" not in outcome.err
    assert not (tmp_path / "out").exists()


def test_corrected_labels_are_trained_on(
    classifier: Path, labelled: Path, tiny_model: Path, tmp_path: Path, command: RunCommand
) -> None:
    def corrected(span: Span) -> Span:
        is_decision = span.region is Region.KEY_DECISION
        return dataclasses.replace(span, region=Region.TOOL_SUMMARY) if is_decision else span

    traces = [
        dataclasses.replace(trace, spans=tuple(map(corrected, trace.spans)))
        for trace in read_traces(labelled)
    ]
    write_traces(traces, tmp_path / "corrected.jsonl")
    folder = Path(shutil.copytree(classifier, tmp_path / "copy"))
    before = load_artifact(folder).card.files["checkpoint.safetensors"]
    outcome = command(
        *("train", "--traces", tmp_path / "corrected.jsonl", "--model", tiny_model),
        *("--out", folder, "--max-epochs", 2, "--synthetic", 1),
    )
    assert outcome.exit_code == 0, outcome.err
    assert load_artifact(folder).card.files["checkpoint.safetensors"] != before
    for name in ("position and role only", "rules", "classifier"):
        assert name in outcome.out


def test_train_needs_traces_or_generated_ones(
    tiny_model: Path, tmp_path: Path, command: RunCommand
) -> None:
    outcome = command("train", "--model", tiny_model, "--out", tmp_path / "out")
    assert outcome.exit_code == 2
    assert "no labelled traces were given" in outcome.error
