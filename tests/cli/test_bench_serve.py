"""`memdecay bench serve` end to end."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Outcome, RunCommand
from tests.serving.bench.fake_server import FakeServer, fake_server
from tests.tiny import tiny_llama, tiny_tokenizer


@pytest.fixture(scope="module")
def long_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a tiny model whose context has room for a few rounds."""
    folder = tmp_path_factory.mktemp("long-model")
    tiny_llama(max_position_embeddings=2048).save_pretrained(folder)
    tiny_tokenizer().save_pretrained(folder)
    return folder


def bench(command: RunCommand, out: Path, model: Path, *more: object) -> Outcome:
    return command(
        *("bench", "serve", "--out", out, "--model", model, "--device", "cpu"),
        *("--dtype", "float32", "--agents", 2, "--rounds", 3, "--dump-round", 2),
        *("--dump-tokens", 300, "--max-tokens", 4, "--budget", 512, *more),
    )


def test_a_running_server_is_measured(
    tmp_path: Path, long_model: Path, command: RunCommand
) -> None:
    with fake_server(FakeServer()) as server:
        outcome = bench(command, tmp_path / "out", long_model, "--base-url", f"{server.url}/v1")
    assert outcome.exit_code == 0, outcome.err
    assert {body["model"] for body in server.bodies} == {"fake"}
    assert "running" in outcome.out
    data = json.loads((tmp_path / "out" / "results.json").read_text())
    (figures,) = data["figures"]
    assert (figures["name"], figures["num_rounds"], figures["num_failed"]) == ("running", 3, 0)
    assert figures["peak_kv_bytes"] == 4096
    assert "2 agents at the same time, 3 rounds each" in (tmp_path / "out/summary.md").read_text()


def test_traces_of_ones_own_are_told(
    tmp_path: Path, long_model: Path, labelled: Path, command: RunCommand
) -> None:
    with fake_server(FakeServer()) as server:
        options = ("--base-url", server.url, "--traces", labelled, "--api-key", "md-1")
        outcome = bench(command, tmp_path / "out", long_model, *options)
    assert outcome.exit_code == 0, outcome.err
    assert any("Agent 1." in body["messages"][-1]["content"] for body in server.bodies)


@pytest.mark.slow
def test_both_servers_of_ours_are_started_and_measured(
    tmp_path: Path, long_model: Path, command: RunCommand
) -> None:
    out = tmp_path / "out"
    outcome = bench(command, out, long_model, "--contestants", "memdecay,full")
    assert outcome.exit_code == 0, outcome.err
    data = json.loads((out / "results.json").read_text())
    own, full = data["figures"]
    assert own["num_failed"] == full["num_failed"] == 0
    assert own["cached_share"] > 0.3
    assert own["peak_kv_bytes"] <= own["kv_limit_bytes"]
    assert data["runs"][0]["probes"]
    assert {target["name"]: target["is_met"] for target in data["targets"]}["peak KV bytes"]

    again = bench(command, out, long_model, "--contestants", "memdecay,full")

    assert json.loads((out / "results.json").read_text())["runs"] == data["runs"]
    assert again.exit_code == 0


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (("--contestants", "vllm"), "unknown contestant 'vllm'"),
        (("--contestants", ","), "names nothing"),
        (("--rounds", "500"), "lower --rounds"),
        (("--kv-memory", "much"), "--kv-memory needs a size"),
        (("--traces", "nowhere.jsonl"), "nowhere.jsonl"),
        (("--base-url", "localhost"), "http://127.0.0.1:8000"),
        (("--base-url", "http://127.0.0.1:9"), "no server with OpenAI's API"),
        (("--contestants", "memdecay", "--classifier", "nowhere"), "nowhere"),
        (("--dtype", "int3"), "unknown dtype"),
    ],
)
def test_a_mistake_is_one_line(
    options: tuple[str, ...],
    expected: str,
    tmp_path: Path,
    long_model: Path,
    command: RunCommand,
) -> None:
    outcome = bench(command, tmp_path / "out", long_model, *options)
    assert outcome.exit_code == 2
    assert expected in outcome.error
    assert "Traceback" not in outcome.err


def test_a_missing_model_is_named(tmp_path: Path, command: RunCommand) -> None:
    outcome = bench(command, tmp_path / "out", tmp_path / "nowhere")
    assert outcome.exit_code == 2
    assert "nowhere" in outcome.error


def test_missing_packages_are_named(
    tmp_path: Path, long_model: Path, command: RunCommand, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("memdecay.cli.bench_serve._PACKAGES", ("no_such_package",))
    outcome = bench(command, tmp_path / "out", long_model)
    assert outcome.exit_code == 2
    assert "memdecay[serve]" in outcome.error
