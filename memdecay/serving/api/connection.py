"""A connection that is cut when its client stops reading."""

from __future__ import annotations

import asyncio
import logging

from uvicorn.protocols.http.h11_impl import H11Protocol

_LOGGER = logging.getLogger(__name__)


class Connection(H11Protocol):
    """Cuts itself once nothing of what waits to be sent has gone for a while.

    Closing would wait for the client to read the rest: the rest, the connection and a server that
    wants to stop would hang on a client that never does.

    Attributes:
        send_timeout_s: Seconds without any progress after which the connection is cut.
    """

    send_timeout_s = 30.0
    _num_unsent = 0
    _watch: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Have the transport tell of every byte that it can't send at once."""
        super().connection_made(transport)
        transport.set_write_buffer_limits(high=0)

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop watching."""
        self._stop_watching()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        """Begin to watch: bytes wait for the client to read."""
        super().pause_writing()
        self._watch_again()

    def resume_writing(self) -> None:
        """Stop watching: the client has read everything."""
        self._stop_watching()
        super().resume_writing()

    def _watch_again(self) -> None:
        self._num_unsent = self.transport.get_write_buffer_size()
        self._watch = self.loop.call_later(self.send_timeout_s, self._check)

    def _stop_watching(self) -> None:
        if self._watch is not None:
            self._watch.cancel()
            self._watch = None

    def _check(self) -> None:
        # Nothing is added while bytes wait, so that reading shows as fewer of them.
        if self.transport.get_write_buffer_size() < self._num_unsent:
            self._watch_again()
            return
        _LOGGER.warning("gave up a client that read nothing for %g s", self.send_timeout_s)
        self.transport.abort()


def connection_class(send_timeout_s: float) -> type[Connection]:
    """Return the protocol for uvicorn.

    Args:
        send_timeout_s: See `Connection`.
    """
    return type("TimedConnection", (Connection,), {"send_timeout_s": send_timeout_s})
