"""Contestants that are started, measured and kept."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from memdecay.classifier.errors import ConfigError, ServerError
from memdecay.serving.bench.config import LoadConfig
from memdecay.serving.bench.contestants import (
    CONTESTANTS,
    FULL,
    MEMDECAY,
    TRANSFORMERS,
    CacheChoice,
    Launch,
    ModelChoice,
    make_launch,
)
from memdecay.serving.bench.driver import Target
from memdecay.serving.bench.run import ServingBenchmark
from memdecay.serving.bench.workload import AgentScript
from tests.serving.bench.fake_server import FakeServer, fake_server

SCRIPT = AgentScript((), ({"role": "user", "content": "hello"},))
REFUSES = """
import http.server, sys
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200); self.send_header("Content-Length", "0"); self.end_headers()
    def do_POST(self):
        self.send_response(503); self.send_header("Content-Length", "0"); self.end_headers()
http.server.HTTPServer(("127.0.0.1", int(sys.argv[2])), Handler).serve_forever()
"""
MODEL = ModelChoice("somewhere/model", "float32", "cpu")
CACHE = CacheChoice(512, 1 << 20, 3)


def benchmark(folder: Path, *, is_redone: bool = False) -> ServingBenchmark:
    return ServingBenchmark(folder, (SCRIPT,), LoadConfig(num_agents=1), is_redone=is_redone)


def no_progress(_done: int, _total: int) -> None:
    pass


def test_what_was_measured_is_not_measured_again(tmp_path: Path) -> None:
    with fake_server(FakeServer()) as server:
        target = Target(server.url, {"model": "fake"})
        first = benchmark(tmp_path).measure_running("mine", target, no_progress)
        again = benchmark(tmp_path).measure_running("mine", target, no_progress)
        assert again == first
        assert len(server.bodies) == 1
        benchmark(tmp_path, is_redone=True).measure_running("mine", target, no_progress)
        assert len(server.bodies) == 2


def test_other_settings_are_measured_anew(tmp_path: Path) -> None:
    with fake_server(FakeServer()) as server:
        for model in ("one", "two"):
            target = Target(server.url, {"model": model})
            benchmark(tmp_path).measure_running("mine", target, no_progress)
        assert len(server.bodies) == 2


def test_a_damaged_run_is_measured_anew(tmp_path: Path) -> None:
    with fake_server(FakeServer()) as server:
        target = Target(server.url, {})
        benchmark(tmp_path).measure_running("mine", target, no_progress)
        (tmp_path / "runs" / "mine.json").write_text('{"rows": []')
        benchmark(tmp_path).measure_running("mine", target, no_progress)
        assert len(server.bodies) == 2


def test_a_server_that_answers_nothing_is_an_error_and_not_kept(tmp_path: Path) -> None:
    launch = Launch((sys.executable, "-c", REFUSES), {}, is_memdecay=False)
    with pytest.raises(ServerError, match=r"answered no round \(status 503"):
        benchmark(tmp_path).measure("mine", launch, no_progress)
    assert not (tmp_path / "runs").exists()
    assert "POST" in (tmp_path / "logs" / "mine.log").read_text()


def test_contestants_serve_the_same_model_in_the_same_type() -> None:
    for name in CONTESTANTS:
        launch = make_launch(name, MODEL, CACHE)
        assert MODEL.name in launch.command
        assert launch.command[launch.command.index("--dtype") + 1] == "float32"
        assert launch.fields["model"] == MODEL.name


def test_only_the_full_cache_has_no_bounds() -> None:
    own, full = (make_launch(name, MODEL, CACHE).command for name in (MEMDECAY, FULL))
    assert own[own.index("--kv-memory") + 1] == str(1 << 20)
    assert "--policy" not in own
    assert full[full.index("--policy") + 1] == "full"
    assert full[full.index("--prefix-cache") + 1] == "0"
    assert "--kv-memory" not in full


def test_a_classifier_is_handed_on() -> None:
    cache = CacheChoice(512, None, 3, classifier="runs/mine")
    command = make_launch(MEMDECAY, MODEL, cache).command
    assert command[command.index("--classifier") + 1] == "runs/mine"


def test_transformers_is_not_asked_for_what_it_refuses() -> None:
    launch = make_launch(TRANSFORMERS, MODEL, CACHE)
    assert "stream_options" not in launch.fields
    assert launch.environment["HF_HUB_OFFLINE"] == "1"
    assert not launch.is_memdecay


def test_an_unknown_contestant_is_refused() -> None:
    with pytest.raises(ConfigError, match="unknown contestant 'vllm'"):
        make_launch("vllm", MODEL, CACHE)


def test_transformers_without_its_extra_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    with pytest.raises(ConfigError, match=r"transformers\[serving\]"):
        make_launch(TRANSFORMERS, MODEL, CACHE)
