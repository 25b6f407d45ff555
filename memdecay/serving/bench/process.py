"""A server in a process of its own, which never outlives the block that needs it."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import NoReturn

import httpx2

from memdecay.classifier.errors import ServerError
from memdecay.classifier.storage import storage_errors

START_TIMEOUT_S = 300.0
_POLL_S = 0.2
_END_S = 20.0
_LOG_LINES = 5


class ServerProcess:
    """A running server.

    Attributes:
        url: Where it answers, without a path.
    """

    def __init__(self, url: str, process: subprocess.Popen[bytes]) -> None:
        self.url = url
        self._process = process

    def peak_rss_bytes(self) -> int | None:
        """Return the most memory that the process has had; None where the system does not tell."""
        try:
            status = Path(f"/proc/{self._process.pid}/status").read_text(encoding="ascii")
        except OSError:
            return None
        for line in status.splitlines():
            if line.startswith("VmHWM:"):
                return 1024 * int(line.split()[1])
        return None


@contextmanager
def running_server(
    command: Sequence[str],
    environment: Mapping[str, str],
    port: int,
    log: Path,
    timeout_s: float = START_TIMEOUT_S,
) -> Iterator[ServerProcess]:
    """Start a server, wait until it answers at `/health`, and end it behind the block.

    An interrupt of this process does not reach the server by itself, so that it can end its
    requests in order.

    Args:
        command: The program and its arguments.
        environment: Variables beside this process's own.
        port: The local port that the command names.
        log: Gets what the server prints.
        timeout_s: Seconds that it has to begin.

    Raises:
        ServerError: It ended before it answered, or did not answer in time.
        StorageError: The log can't be written.
    """
    with storage_errors(log):
        log.parent.mkdir(parents=True, exist_ok=True)
        output = log.open("wb")
    with output:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env={**os.environ, **environment},
            start_new_session=True,
        )
        try:
            url = f"http://127.0.0.1:{port}"
            _wait(url, process, log, timeout_s)
            yield ServerProcess(url, process)
        finally:
            _end(process)


def free_port() -> int:
    """Return a local port that nobody listens on."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


@contextmanager
def termination_as_interrupt() -> Iterator[None]:
    """Let SIGTERM end the block as Ctrl-C does, so that what it has started is ended as well."""

    def interrupt(_number: int, _frame: FrameType | None) -> NoReturn:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _wait(url: str, process: subprocess.Popen[bytes], log: Path, timeout_s: float) -> None:
    end = time.monotonic() + timeout_s
    while time.monotonic() < end:
        if process.poll() is not None:
            raise ServerError(
                f"a server ended with the status {process.returncode} before it answered "
                f"({_last_words(log)}); its log is {log}"
            )
        try:
            if httpx2.get(f"{url}/health", timeout=_POLL_S * 10).status_code == 200:
                return
        except httpx2.HTTPError:
            pass
        time.sleep(_POLL_S)
    raise ServerError(
        f"a server did not answer at {url}/health within {timeout_s:g} s; its log is {log}"
    )


def _last_words(log: Path) -> str:
    lines = [line.strip() for line in log.read_text(errors="replace").splitlines()]
    return " / ".join([line for line in lines if line][-_LOG_LINES:]) or "it said nothing"


def _end(process: subprocess.Popen[bytes]) -> None:
    """Ask the server to end, then make it end, with all that it has started."""
    process.terminate()
    try:
        process.wait(_END_S)
    except subprocess.TimeoutExpired:
        pass
    finally:
        # Also where a second interrupt cuts the waiting short.
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
