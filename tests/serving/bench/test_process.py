"""Servers in processes of their own."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

import httpx2
import pytest

from memdecay.classifier.errors import ServerError
from memdecay.serving.bench.process import (
    free_port,
    running_server,
    termination_as_interrupt,
)

ANSWERS = """
import http.server, os, subprocess, sys
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        body = f"{os.environ.get('COLOUR')} {os.getpid()}".encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
http.server.HTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
"""
STUBBORN = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)\n" + ANSWERS


def command(program: str, port: int) -> tuple[str, ...]:
    return (sys.executable, "-c", program, str(port))


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_a_server_runs_while_the_block_does(tmp_path: Path) -> None:
    port = free_port()
    log = tmp_path / "logs" / "server.log"
    with running_server(command(ANSWERS, port), {"COLOUR": "blue"}, port, log) as server:
        colour, pid = httpx2.get(f"{server.url}/health").text.split()
        assert colour == "blue"
        assert is_alive(int(pid))
        if Path("/proc/self/status").exists():
            assert (server.peak_rss_bytes() or 0) > 2**20
    assert not is_alive(int(pid))
    assert "GET /health" in log.read_text()


@pytest.mark.parametrize("program", [ANSWERS, STUBBORN])
def test_an_interrupt_ends_the_server_as_well(
    tmp_path: Path, program: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("memdecay.serving.bench.process._END_S", 0.3)
    port = free_port()
    pid = 0
    with (  # noqa: PT012
        pytest.raises(KeyboardInterrupt),
        termination_as_interrupt(),
        running_server(command(program, port), {}, port, tmp_path / "log") as server,
    ):
        pid = int(httpx2.get(f"{server.url}/health").text.split()[1])
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(5)
    assert not is_alive(pid)


def test_sigterm_is_as_before_behind_the_block() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with termination_as_interrupt():
        assert signal.getsignal(signal.SIGTERM) != before
    assert signal.getsignal(signal.SIGTERM) == before


def test_a_server_that_ends_at_once_tells_its_last_words(tmp_path: Path) -> None:
    program = "import sys; sys.exit('the model is missing')"
    with (
        pytest.raises(ServerError, match=r"status 1 .*the model is missing"),
        running_server(command(program, 1), {}, free_port(), tmp_path / "log"),
    ):
        pass


def test_a_server_that_never_answers_is_given_up_and_ended(tmp_path: Path) -> None:
    program = "import time; time.sleep(60)"
    with (
        pytest.raises(ServerError, match=r"within 0\.5 s"),
        running_server(command(program, 1), {}, free_port(), tmp_path / "log", timeout_s=0.5),
    ):
        pass
