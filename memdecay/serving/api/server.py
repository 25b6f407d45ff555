"""The server process: uvicorn around the application, and an end without broken streams."""

from __future__ import annotations

import asyncio
import logging
import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import uvicorn
from fastapi import FastAPI

from memdecay.classifier.errors import ConfigError
from memdecay.serving.api.config import ServerConfig
from memdecay.serving.api.connection import connection_class
from memdecay.serving.engine.interface import ServingEngine

_LOGGER = logging.getLogger(__name__)
_BACKLOG = 512
_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_GRACE_S = 5.0  # For connections to close once their last event is there.


def listen(host: str, port: int) -> socket.socket:
    """Return a listening socket, so that a taken port is found before the model is loaded.

    Args:
        host: Name or address.
        port: 0 takes a free one.

    Raises:
        ConfigError: The address is not this machine's, or the port is taken.
    """
    try:
        family, kind, proto, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listener = socket.socket(family, kind, proto)
    except OSError as error:
        raise ConfigError(f"{host} is no address of this machine ({error.strerror})") from error
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(_BACKLOG)
    except OSError as error:
        listener.close()
        raise ConfigError(
            f"can't listen on {host}, port {port} ({error.strerror}); choose another --port"
        ) from error
    return listener


def url_of(listener: socket.socket) -> str:
    """Return the address that a browser on this machine takes."""
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


class Server(uvicorn.Server):
    """Ends running requests through the engine when it is told to stop.

    Args:
        app: The application.
        engine: The started engine; it is stopped at the end.
        config: Says how long running requests have to end: those that have not then are cancelled,
            and their streams end with an error's event; and how long a client may not read.
    """

    def __init__(self, app: FastAPI, engine: ServingEngine, config: ServerConfig) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                http=connection_class(config.send_timeout_s),
                log_config=None,
                access_log=False,
                lifespan="off",
                ws="none",
                server_header=False,
                timeout_graceful_shutdown=int(config.shutdown_timeout_s + 2 * _GRACE_S),
            )
        )
        self._engine = engine
        self._shutdown_timeout_s = config.shutdown_timeout_s

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Take SIGINT and SIGTERM as the wish to stop, and do not raise them again behind."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {number: signal.signal(number, self.handle_exit) for number in _SIGNALS}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Take no more connections, end the running requests, then close."""
        _LOGGER.info("stopping: running requests have %g s to end", self._shutdown_timeout_s)
        stopping = asyncio.to_thread(self._engine.stop, timeout_s=self._shutdown_timeout_s)
        await asyncio.gather(super().shutdown(sockets), stopping)


def serve_until_stopped(
    app: FastAPI, engine: ServingEngine, listener: socket.socket, config: ServerConfig
) -> None:
    """Serve until SIGINT or SIGTERM; the engine is started before and stopped behind.

    Args:
        app: The application, see `memdecay.serving.api.app.create_app`.
        engine: The engine, not started yet.
        listener: See `listen`.
        config: The server's settings.
    """
    engine.start()
    try:
        Server(app, engine, config).run(sockets=[listener])
    finally:
        # Does nothing where the shutdown has done it.
        engine.stop(timeout_s=0)
