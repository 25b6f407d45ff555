"""An application over the fake engine, called in the process or over a loopback port."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from memdecay.serving.api.app import create_app
from memdecay.serving.api.config import ServerConfig
from memdecay.serving.api.keys import ApiKeys, add_key, load_keys
from memdecay.serving.api.server import Server, listen, url_of
from memdecay.serving.engine.interface import ServingEngine
from tests.serving.fake_engine import FakeEngine

HELLO = [{"role": "user", "content": "Hello"}]
WEATHER_TOOL = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Tell the weather of a city",
        "parameters": {
            "type": "object",
            "properties": {
                "city": {"type": "string"},
                "unit": {"type": "string", "enum": ["celsius", "fahrenheit"]},
                "days": {"type": "integer"},
            },
            "required": ["city", "unit"],
        },
    },
}


@pytest.fixture
def engine() -> FakeEngine:
    """Return an engine that says hello."""
    return FakeEngine()


@pytest.fixture
def client(engine: FakeEngine) -> TestClient:
    """Return a client of a server without keys."""
    return client_of(engine)


def client_of(
    engine: ServingEngine,
    config: ServerConfig | None = None,
    keys: ApiKeys | None = None,
    headers: dict[str, str] | None = None,
) -> TestClient:
    """Return a client that calls the application in this process."""
    app = create_app(engine, config, keys)
    # A fault of the server's shows as the status that a client gets.
    return TestClient(
        app, base_url="http://127.0.0.1", headers=headers, raise_server_exceptions=False
    )


@dataclass(frozen=True)
class Tenants:
    """A file of keys and the keys of two tenants."""

    path: Path
    alice: str
    bob: str

    @property
    def keys(self) -> ApiKeys:
        return load_keys(self.path)


@pytest.fixture
def tenants(tmp_path: Path) -> Tenants:
    """Return the keys of two tenants."""
    path = tmp_path / "keys.toml"
    return Tenants(path, add_key(path, "alice"), add_key(path, "bob"))


def bearer(key: str) -> dict[str, str]:
    """Return the header that bears a key."""
    return {"Authorization": f"Bearer {key}"}


@dataclass(frozen=True)
class Running:
    """A server on a loopback port."""

    url: str
    port: int
    stop: Callable[[], None]


@contextmanager
def running_server(
    engine: ServingEngine, config: ServerConfig | None = None, keys: ApiKeys | None = None
) -> Iterator[Running]:
    """Serve on a free loopback port while the block runs."""
    config = config or ServerConfig(shutdown_timeout_s=1.0)
    listener = listen("127.0.0.1", 0)
    server = Server(create_app(engine, config, keys), engine, config)
    engine.start()
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()

    def stop() -> None:
        server.should_exit = True

    try:
        wait_until(lambda: server.started)
        yield Running(url_of(listener), int(listener.getsockname()[1]), stop)
    finally:
        stop()
        thread.join(30)
        listener.close()
        assert not thread.is_alive()


def wait_until(is_true: Callable[[], object], timeout_s: float = 60.0) -> None:
    """Wait for something that another thread brings about."""
    deadline = time.monotonic() + timeout_s
    while not is_true():
        if time.monotonic() > deadline:
            raise AssertionError("what was waited for did not come about")
        time.sleep(0.005)


def raw_request(port: int, data: bytes, timeout_s: float = 60.0) -> bytes:
    """Send bytes and return all that comes back until the server closes or nothing comes."""
    with socket.create_connection(("127.0.0.1", port), timeout=timeout_s) as connection:
        connection.sendall(data)
        answer = b""
        while part := connection.recv(65536):
            answer += part
        return answer


def chat(client: Any, **fields: Any) -> Any:
    """Post a chat request and return the response."""
    return client.post("/v1/chat/completions", json={"model": "fake", "messages": HELLO} | fields)
