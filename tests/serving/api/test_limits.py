import http.client
import json
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from unittest.mock import Mock

import openai
import pytest
import uvicorn
from starlette.testclient import TestClient
from uvicorn.server import ServerState

from memdecay.classifier.errors import ConfigError
from memdecay.serving.api.config import ServerConfig
from memdecay.serving.api.connection import connection_class
from memdecay.serving.api.server import listen, url_of
from tests.serving.api.conftest import (
    HELLO,
    Tenants,
    bearer,
    chat,
    client_of,
    raw_request,
    running_server,
    wait_until,
)
from tests.serving.fake_engine import FakeEngine

CHAT = "/v1/chat/completions"


def post(port: int, body: bytes, *headers: str) -> bytes:
    head = "\r\n".join(
        (
            f"POST {CHAT} HTTP/1.1",
            f"Host: 127.0.0.1:{port}",
            "Content-Type: application/json",
            "Connection: close",
            *headers,
        )
    )
    return raw_request(port, head.encode() + b"\r\n\r\n" + body)


@contextmanager
def streaming(port: int) -> Iterator[socket.socket]:
    """Open a stream and read its first event."""
    body = json.dumps({"model": "fake", "messages": HELLO, "stream": True}).encode()
    head = (
        f"POST {CHAT} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    )
    with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
        connection.sendall(head.encode() + body)
        received = b""
        while b"Hello" not in received:
            received += connection.recv(4096)
        yield connection


def test_body_of_ten_megabytes_is_refused(client: TestClient, engine: FakeEngine) -> None:
    response = chat(client, messages=[{"role": "user", "content": "a" * 10_000_000}])
    assert response.status_code == 413
    assert response.json()["error"]["code"] == "body_too_large"
    assert not engine.requests


def test_body_of_unknown_length_is_counted() -> None:
    chunk = b"400\r\n" + b" " * 1024 + b"\r\n"
    with running_server(FakeEngine(), ServerConfig(max_body_bytes=4096)) as server:
        answer = post(server.port, chunk * 8 + b"0\r\n\r\n", "Transfer-Encoding: chunked")
    assert answer.startswith(b"HTTP/1.1 413")
    assert b"body_too_large" in answer


def test_claimed_length_is_refused_before_the_body_comes() -> None:
    with running_server(FakeEngine(), ServerConfig(max_body_bytes=4096)) as server:
        answer = post(server.port, b"", "Content-Length: 5000")
    assert answer.startswith(b"HTTP/1.1 413")


@pytest.mark.parametrize("is_claimed", [True, False])
def test_client_that_sends_ten_megabytes_before_it_reads_gets_the_refusal(
    is_claimed: bool,
) -> None:
    size = 10_000_000
    header = f"Content-Length: {size}" if is_claimed else "Transfer-Encoding: chunked"
    content = b" " * size if is_claimed else b"%x\r\n" % size + b" " * size + b"\r\n0\r\n\r\n"
    with running_server(FakeEngine()) as server:
        answer = post(server.port, content, header)
    assert answer.startswith(b"HTTP/1.1 413")
    assert b"body_too_large" in answer


def test_openai_client_is_told_that_its_body_is_too_large() -> None:
    with running_server(FakeEngine()) as server:
        client = openai.OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0)
        with pytest.raises(openai.APIStatusError, match="longer than the 8388608 bytes") as caught:
            client.chat.completions.create(
                model="fake", messages=[{"role": "user", "content": "a" * 10_000_000}]
            )
    assert caught.value.status_code == 413


def test_body_without_end_is_not_read_forever() -> None:
    config = ServerConfig(max_body_bytes=4096, body_timeout_s=0.3, shutdown_timeout_s=1.0)
    head = f"POST {CHAT} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 9999999\r\n\r\n"
    with (
        running_server(FakeEngine(), config) as server,
        socket.create_connection(("127.0.0.1", server.port), timeout=60) as connection,
    ):
        connection.sendall(head.encode())
        with pytest.raises(OSError, match=r"reset|pipe"):
            send_forever(connection)


def send_forever(connection: socket.socket) -> None:
    """Send bytes one by one."""
    while True:
        connection.sendall(b" ")
        time.sleep(0.01)


def test_body_that_does_not_come_is_given_up() -> None:
    config = ServerConfig(body_timeout_s=0.2)
    with running_server(FakeEngine(), config) as server:
        answer = post(server.port, b'{"mess', "Content-Length: 500")
    assert answer.startswith(b"HTTP/1.1 408")


@pytest.mark.parametrize(
    ("content_type", "body"),
    [
        ("application/json", b"{"),
        ("application/json", b""),
        ("application/json", b"[1, 2]"),
        ("application/json", b"\xff\xfe"),
        ("application/json", b"[" * 100_000),
        ("application/json", b'{"messages": ' + b"9" * 5000 + b"}"),
        ("text/plain", b'{"model": "fake", "messages": [{"role": "user", "content": "Hello"}]}'),
    ],
)
def test_malformed_body_is_refused(
    client: TestClient, engine: FakeEngine, content_type: str, body: bytes
) -> None:
    response = client.post(CHAT, content=body, headers={"Content-Type": content_type})
    assert response.status_code == 400
    assert response.json()["error"]["type"] == "invalid_request_error"
    assert not engine.requests


def test_unknown_route_and_method_are_refused_in_openais_shape(client: TestClient) -> None:
    assert "no route /nowhere" in client.get("/nowhere").json()["error"]["message"]
    response = client.get(CHAT)
    assert response.status_code == 405
    assert "takes no GET" in response.json()["error"]["message"]


def test_client_that_goes_in_a_stream_cancels_and_frees_its_place() -> None:
    engine = FakeEngine(gate=threading.Event())
    with running_server(engine, ServerConfig(max_requests=1)) as server:
        with streaming(server.port):
            (request,) = engine.requests
        wait_until(lambda: engine.cancelled[request.request_id].is_set())
        wait_until(lambda: request.request_id in engine.ended)
        assert engine.gate is not None
        engine.gate.set()
        # The only place is free again.
        wait_until(lambda: b" 200 " in post(server.port, *_hello()).split(b"\r\n")[0])


def _hello() -> tuple[bytes, str]:
    body = json.dumps({"model": "fake", "messages": HELLO}).encode()
    return body, f"Content-Length: {len(body)}"


def test_client_that_goes_while_it_waits_cancels() -> None:
    engine = FakeEngine(before_start=threading.Event())
    with running_server(engine) as server:
        with closing(http.client.HTTPConnection("127.0.0.1", server.port)) as connection:
            connection.request(
                "POST",
                CHAT,
                json.dumps({"model": "fake", "messages": HELLO, "stream": True}),
                {"Content-Type": "application/json"},
            )
            wait_until(lambda: engine.requests)
        wait_until(lambda: engine.cancelled[engine.requests[0].request_id].is_set())


def test_client_that_does_not_read_is_given_up() -> None:
    first = "Hello" + "o" * 20_000_000
    engine = FakeEngine(answer=f"{first} and more", gate=threading.Event())
    config = ServerConfig(send_timeout_s=0.2, shutdown_timeout_s=1.0)
    with running_server(engine, config) as server, streaming(server.port) as connection:
        wait_until(lambda: engine.cancelled[engine.requests[0].request_id].is_set())
        # What the system holds can still be read, but the rest of the first word never comes.
        try:
            num_read = len(_read_all(connection))
        except ConnectionResetError:
            num_read = 0
    assert num_read < len(first)


def test_client_that_reads_slowly_is_not_given_up() -> None:
    loop = Mock()
    transport = Mock(**{"get_extra_info.return_value": None})
    transport.get_write_buffer_size.side_effect = [100, 60, 60, 60]
    config = uvicorn.Config(Mock(), log_config=None)
    connection = connection_class(0.5)(config, ServerState(), {}, loop)
    connection.connection_made(transport)
    connection.pause_writing()
    delay_s, check = loop.call_later.call_args.args
    assert delay_s == 0.5
    check()
    transport.abort.assert_not_called()
    # Nothing has gone since.
    check()
    transport.abort.assert_called_once_with()


def test_client_that_has_read_everything_is_watched_no_more() -> None:
    loop = Mock()
    config = uvicorn.Config(Mock(), log_config=None)
    connection = connection_class(0.5)(config, ServerState(), {}, loop)
    connection.connection_made(Mock(**{"get_extra_info.return_value": None}))
    connection.pause_writing()
    connection.resume_writing()
    loop.call_later.return_value.cancel.assert_called_once_with()


def test_requests_beyond_the_limit_are_refused() -> None:
    engine = FakeEngine(gate=threading.Event())
    with running_server(engine, ServerConfig(max_requests=1)) as server, streaming(server.port):
        answer = post(server.port, *_hello())
        # What costs nothing still answers.
        health = "GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n"
        assert raw_request(server.port, health.encode()).startswith(b"HTTP/1.1 200")
    assert answer.startswith(b"HTTP/1.1 429")
    assert b"retry-after: 1" in answer.lower()
    assert b"too_many_requests" in answer


def test_one_tenant_cannot_take_all_places(tenants: Tenants) -> None:
    engine = FakeEngine(gate=threading.Event())
    client = client_of(engine, ServerConfig(max_tenant_requests=1), tenants.keys)
    body = {"model": "fake", "messages": HELLO}
    first = threading.Thread(
        target=client.post, args=(CHAT,), kwargs={"json": body, "headers": bearer(tenants.alice)}
    )
    first.start()
    wait_until(lambda: engine.requests)
    refused = client.post(CHAT, json=body, headers=bearer(tenants.alice))
    assert refused.status_code == 429
    assert engine.gate is not None
    engine.gate.set()
    assert client.post(CHAT, json=body, headers=bearer(tenants.bob)).status_code == 200
    first.join(10)


def test_stopping_lets_a_stream_end() -> None:
    engine = FakeEngine(gate=threading.Event())
    config = ServerConfig(shutdown_timeout_s=20)
    with running_server(engine, config) as server, streaming(server.port) as connection:
        server.stop()
        wait_until(lambda: engine.is_stopping)
        assert engine.gate is not None
        engine.gate.set()
        rest = _read_all(connection)
    assert b'"finish_reason": "stop"' in rest
    assert b"data: [DONE]" in rest


def test_stopping_ends_a_stream_that_takes_too_long() -> None:
    engine = FakeEngine(gate=threading.Event())
    start = time.monotonic()
    config = ServerConfig(shutdown_timeout_s=0.1)
    with running_server(engine, config) as server, streaming(server.port) as connection:
        server.stop()
        rest = _read_all(connection)
    assert b'"code": "cancelled"' in rest
    assert b"data: [DONE]" in rest
    assert time.monotonic() - start < 15


def _read_all(connection: socket.socket) -> bytes:
    received = b""
    while part := connection.recv(65536):
        received += part
    return received


def test_stream_without_news_carries_comments() -> None:
    engine = FakeEngine(gate=threading.Event())
    config = ServerConfig(ping_s=0.05)
    received = b""
    with running_server(engine, config) as server, streaming(server.port) as connection:
        while b": still at work" not in received:
            received += connection.recv(65536)


def test_taken_port_is_refused() -> None:
    with listen("127.0.0.1", 0) as listener:
        assert url_of(listener).startswith("http://127.0.0.1:")
        with pytest.raises(ConfigError, match="choose another --port"):
            listen("127.0.0.1", listener.getsockname()[1])


def test_address_of_nobody_is_refused() -> None:
    with pytest.raises(ConfigError, match="is no address of this machine"):
        listen("no-such-host.invalid", 0)
