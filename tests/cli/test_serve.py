import json
import signal
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.client import HTTPException
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import torch

from memdecay.classifier.errors import ConfigError
from memdecay.classifier.fingerprint import llm_fingerprint
from memdecay.classifier.llm import load_llm
from memdecay.classifier.region_file import write_region_settings
from memdecay.classifier.region_settings import RegionSettings
from memdecay.classifier.regions import RegionDecay, RegionTable
from memdecay.cli import serve as serve_module
from memdecay.cli.byte_sizes import parse_bytes
from memdecay.runtime.tagger import RegionTagger
from memdecay.serving.api import server as server_module
from memdecay.serving.api.keys import load_keys
from memdecay.serving.engine.config import EngineConfig
from tests.cli.conftest import RunCommand
from tests.runtime.artifacts import random_artifact
from tests.serving.api.conftest import running_server, wait_until
from tests.serving.fake_engine import FakeEngine, fake_view


def test_new_key_is_shown_once_and_hashed(tmp_path: Path, command: RunCommand) -> None:
    path = tmp_path / "keys.toml"
    outcome = command("serve", "--api-keys", path, "--new-key", "alice")
    assert outcome.exit_code == 0, outcome.err
    key = outcome.out.strip()
    assert load_keys(path).tenant_of(key) == "alice"
    assert key not in path.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--new-key", "alice"), "give --api-keys FILE"),
        (("--host", "0.0.0.0"), "there are no API keys"),
        (("--log-format", "xml"), "must be json or text"),
        (("--kv-memory", "lots"), "--kv-memory needs a size such as 4GiB"),
        (("--budget", "20"), "a budget of 20 tokens has no room"),
        (("--api-keys", "no-such-file.toml"), "can't be read"),
        (("--prompts", "no-such-file.toml"), "can't be read as a TOML file of prompts"),
        (("--tagger", "oracle"), "unknown tagger 'oracle'"),
        (("--tagger", "rules", "--classifier", "runs/mine"), "needs no classifier"),
        (("--port", "0", "--model", "no/such-folder"), "no/such-folder"),
    ],
)
def test_bad_option_is_refused_in_one_line(
    command: RunCommand, arguments: tuple[str, ...], message: str
) -> None:
    outcome = command("serve", *arguments)
    assert outcome.exit_code == 2
    assert message in outcome.error


@pytest.mark.slow
def test_server_process_answers_shows_its_status_and_stops(
    tiny_model: Path, tmp_path: Path, command: RunCommand
) -> None:
    config = tmp_path / "memdecay.toml"
    config.write_text(
        f'model = "{tiny_model}"\n[serve]\nport = 0\nbudget = 300\nmax-sessions = 4\n'
        'alias = "gpt-4o"\n',
        encoding="utf-8",
    )
    code = "from memdecay.cli import main; main()"
    with subprocess.Popen(
        [sys.executable, "-c", code, "serve", "--config", str(config)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        url = process.stdout.readline().split(" at ")[1].split("/v1")[0]
        assert "Sessions take at most" in process.stdout.readline()
        body = {"model": "gpt-4o", "messages": [{"role": "user", "content": "Hi"}]}
        request = urllib.request.Request(
            f"{url}/v1/chat/completions",
            json.dumps(body | {"max_tokens": 3, "session_id": "mine"}).encode(),
            {"Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=60) as answer:
            assert json.load(answer)["memdecay"]["session_id"] == "mine"
        outcome = command("status", url)
        process.send_signal(signal.SIGTERM)
        log = process.stderr.read()
        assert process.wait(60) == 0, log
    assert "mine" in outcome.out
    lines = [json.loads(line) for line in log.splitlines() if line.startswith("{")]
    assert any(line.get("route") == "/v1/chat/completions" for line in lines)
    if find_spec("numba") is not None:  # loaded before the first request, and told
        assert lines[0]["message"].startswith("prepared the kernels for faded tokens")


@contextmanager
def server_process(*arguments: object) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Run `memdecay serve` and yield the process and its address."""
    code = "from memdecay.cli import main; main()"
    command = [sys.executable, "-c", code, "serve", *map(str, arguments), "--port", "0"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        assert process.stdout is not None
        try:
            yield process, process.stdout.readline().split(" at ")[1].split("/v1")[0]
        finally:
            process.kill()


def ask(url: str, session_id: str, messages: list[Any]) -> Any:
    body = {"model": "m", "messages": messages, "session_id": session_id, "temperature": 0}
    request = urllib.request.Request(
        f"{url}/v1/chat/completions",
        json.dumps(body | {"max_tokens": 3}).encode(),
        {"Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.load(answer)


@pytest.mark.slow
def test_killed_server_goes_on_with_what_it_had_written(tiny_model: Path, tmp_path: Path) -> None:
    """Each session but one is moved to disk by the next, and the kill comes in between."""
    disk = tmp_path / "sessions"
    options = ("--model", tiny_model, "--alias", "m", "--tagger", "rules", "--budget", 300)
    options += ("--disk", disk, "--max-sessions", 1)
    answered: dict[str, list[Any]] = {}

    def ask_for_ever(url: str) -> None:
        # Until the server is gone.
        with suppress(OSError, HTTPException):
            for number in range(10_000):
                messages = [{"role": "user", "content": f"I am agent {number}."}]
                said = ask(url, f"s{number}", messages)["choices"][0]["message"]["content"]
                messages += [{"role": "assistant", "content": said}, messages[0]]
                answered[f"s{number}"] = messages

    with server_process(*options) as (process, url):
        asking = threading.Thread(target=ask_for_ever, args=(url,))
        asking.start()
        wait_until(lambda: len(answered) >= 5)
        process.send_signal(signal.SIGKILL)
        asking.join(60)
    num_written = len(list(disk.glob("*.json")))
    assert num_written >= len(answered) - 2
    with server_process(*options) as (_, url):
        # Whatever the kill left half written is gone, and all else is there.
        assert len(list(disk.iterdir())) == 2 * num_written
        cached = [
            ask(url, name, messages)["usage"]["prompt_tokens_details"]["cached_tokens"]
            for name, messages in answered.items()
        ]
        # The one that was on the device is read again.
        assert sum(count == 0 for count in cached) <= 2
        assert len(cached) - cached.count(0) >= num_written - 1


def test_status_shows_requests_memory_and_sessions(command: RunCommand) -> None:
    engine = FakeEngine()
    engine.held["local", "agent-7"] = fake_view("agent-7")
    with running_server(engine) as server:
        outcome = command("status", server.url)
        data = json.loads(command("status", server.url, "--json").out)
    assert outcome.exit_code == 0, outcome.err
    for text in ("fake: 0 running", "device", "1.0 KiB", "agent-7", "100", "recent 20"):
        assert text in outcome.out
    assert data["sessions"][0]["tokens_evicted"] == 60


def test_status_of_nobody_is_refused_in_one_line(tmp_path: Path, command: RunCommand) -> None:
    assert "no server answers" in command("status", "http://127.0.0.1:9").error
    assert "expected an address" in command("status", "127.0.0.1").error
    outcome = command("status", "http://127.0.0.1:9", "--watch", "1")
    assert outcome.exit_code == 2
    path = tmp_path / "keys.toml"
    command("serve", "--api-keys", path, "--new-key", "alice")
    with running_server(FakeEngine(), keys=load_keys(path)) as server:
        assert "needs an API key" in command("status", server.url).error
        assert "is not known here" in command("status", server.url, "--api-key", "md-1").error


def test_memory_says_whether_it_fits(tiny_model: Path, command: RunCommand) -> None:
    arguments = ("memory", "--model", tiny_model, "--budget", 100, "--sessions", 4)
    outcome = command(*arguments, "--available", "1GiB")
    assert outcome.exit_code == 0, outcome.err
    assert "It fits" in outcome.out
    assert "2 · 4 layers · 2 heads" in outcome.out
    assert "It does not fit" in command(*arguments, "--available", "10KiB").out


def test_memory_gives_figures_for_machines(tiny_model: Path, command: RunCommand) -> None:
    arguments = ("memory", "--model", tiny_model, "--dtype", "bfloat16", "--device", "cpu")
    data = json.loads(command(*arguments, "--sessions", 3, "--budget", 10, "--json").out)
    assert data["kv"] == 30 * data["kv_per_token"]
    assert data["total"] == data["weights"] + data["kv"] + data["activations"]
    assert data["fits"] is True


def test_memory_of_no_model_is_refused(tmp_path: Path, command: RunCommand) -> None:
    outcome = command("memory", "--model", tmp_path)
    assert outcome.exit_code == 2
    assert "can't be read" in outcome.error


@pytest.mark.parametrize(
    ("text", "size"),
    [("4GiB", 4 << 30), ("4G", 4 << 30), ("500MB", 500_000_000), ("1.5 KiB", 1536), ("77", 77)],
)
def test_sizes_are_read(text: str, size: int) -> None:
    assert parse_bytes(text, "--x") == size


@pytest.mark.parametrize("text", ["", "GiB", "-4GiB", "4 pounds", "4Gb ps"])
def test_senseless_size_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="--x needs a size"):
        parse_bytes(text, "--x")


def test_region_settings_reach_the_engine(
    tiny_model: Path, tmp_path: Path, command: RunCommand, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = RegionTable(key_decision=RegionDecay(7.0, 0.25))
    shares = (None, 0.3, None, None, None)
    write_region_settings(tmp_path / "regions.toml", RegionSettings(table, max_shares=shares))
    fingerprint = llm_fingerprint(load_llm(str(tiny_model), "float32", "cpu").model)
    classifier = random_artifact(tmp_path / "classifier", fingerprint=fingerprint).folder
    engines: list[Any] = []

    class Noted(FakeEngine):
        most_kv_bytes = 3 << 20

        def __init__(self, _: object, config: EngineConfig, tagger: RegionTagger) -> None:
            super().__init__()
            engines.append((config, tagger))

    monkeypatch.setattr(serve_module, "Engine", Noted)
    monkeypatch.setattr(server_module, "serve_until_stopped", lambda *_: None)
    monkeypatch.setattr(serve_module, "_log_as_json", lambda: None)
    outcome = command(
        *("serve", "--port", 0, "--model", tiny_model, "--classifier", classifier),
        *("--regions", tmp_path / "regions.toml"),
    )
    assert outcome.exit_code == 0, outcome.err
    assert "Sessions take at most 3.0 MiB of KV memory." in outcome.out
    ((config, tagger),) = engines
    assert tagger.region_table == table
    assert config.cache.region_shares[1] == 0.3


@pytest.mark.parametrize(
    ("given", "device", "size"),
    [(None, "cpu", 0), (None, "cuda", 4 << 30), ("0", "cuda", 0), ("1GiB", "cpu", 1 << 30)],
)
def test_idle_sessions_move_to_cpu_memory_beside_a_gpu(
    monkeypatch: pytest.MonkeyPatch, given: str | None, device: str, size: int
) -> None:
    monkeypatch.setattr(serve_module, "resolve_device", torch.device)
    assert serve_module._cpu_memory_bytes(given, device) == size


def test_region_settings_without_regions_are_refused(tiny_model: Path, command: RunCommand) -> None:
    outcome = command("serve", "--model", tiny_model, "--regions", "regions.toml")
    assert outcome.exit_code == 2
    assert "no token has one; add --classifier" in outcome.error
