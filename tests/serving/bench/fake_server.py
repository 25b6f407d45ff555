"""A server that answers as OpenAI's API does, without a model."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

ANSWER = ("Let me ", "look.")


@dataclass
class FakeServer:
    """What the server has been asked, and how it answers.

    Attributes:
        bodies: The requests.
        fails_from: Conversations of this many messages are refused; None for never.
        chunks: What it sends after the role, each as one event.
        kv_bytes: What `/v1/status` tells.
        url: Where it is.
    """

    bodies: list[dict[str, Any]] = field(default_factory=list)
    fails_from: int | None = None
    chunks: tuple[dict[str, Any], ...] = tuple(
        {"choices": [{"delta": {"content": text}}]} for text in ANSWER
    )
    kv_bytes: int = 4096
    url: str = ""


@contextmanager
def fake_server(server: FakeServer) -> Iterator[FakeServer]:
    http = ThreadingHTTPServer(("127.0.0.1", 0), _handler_of(server))
    server.url = f"http://127.0.0.1:{http.server_port}"
    thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server
    finally:
        http.shutdown()
        thread.join()
        http.server_close()


def _handler_of(server: FakeServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_: Any) -> None:
            pass

        def do_GET(self) -> None:
            device = {"used_bytes": server.kv_bytes, "limit_bytes": 8192}
            answers = {
                "/health": {"status": "ok"},
                "/v1/models": {"data": [{"id": "fake", "owned_by": "memdecay"}]},
                "/v1/status": {"tiers": {"device": device}},
            }
            self._send_json(200, answers[self.path])

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            server.bodies.append(body)
            if server.fails_from is not None and len(body["messages"]) >= server.fails_from:
                self._send_json(429, {"error": {"message": "too much to do"}})
                return
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.end_headers()
            usage = {
                "prompt_tokens": 10 * len(body["messages"]),
                "completion_tokens": 2,
                "prompt_tokens_details": {"cached_tokens": 5},
            }
            role = {"choices": [{"delta": {"role": "assistant", "content": ""}}]}
            for chunk in (role, *server.chunks, {"choices": [], "usage": usage}):
                self.wfile.write(b"data: " + json.dumps(chunk).encode() + b"\n\n")
            self.wfile.write(b": a comment\n\ndata: [DONE]\n\n")

        def _send_json(self, status: int, data: dict[str, Any]) -> None:
            content = json.dumps(data).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

    return Handler
