"""Server-sent events whose sender notices a client that is gone."""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from typing import Any

from pydantic import BaseModel
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from memdecay.serving.api.errors import ApiError
from memdecay.serving.api.turn import ClientGoneError

_LOGGER = logging.getLogger(__name__)

DONE = b"data: [DONE]\n\n"
PING = b": still at work\n\n"


def sse(data: Any) -> bytes:
    """Return an event that carries JSON."""
    return b"data: " + json.dumps(data).encode("ascii") + b"\n\n"


def chunk_event(chunk: BaseModel, *, includes_usage: bool) -> bytes:
    """Return an event that carries a piece of an answer.

    Args:
        chunk: The piece.
        includes_usage: Whether the stream ends with a chunk of usage; all others say null then.
    """
    data = chunk.model_dump(mode="json")
    return sse({"usage": None} | data if includes_usage else data)


class EventStream(Response):
    """A stream of events, with `[DONE]` at its end, an error's event before it where one comes.

    Args:
        events: The events as bytes.
        close: Frees what the stream holds; awaited in any case.
        headers: Headers of the response.
    """

    def __init__(
        self,
        events: AsyncGenerator[bytes, None],
        close: Callable[[], Awaitable[None]],
        headers: Mapping[str, str],
    ) -> None:
        super().__init__(
            headers={**headers, "Cache-Control": "no-store", "X-Accel-Buffering": "no"},
            media_type="text/event-stream",
        )
        # The length is not known.
        del self.headers["content-length"]
        self._events = events
        self._close = close

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002
        """Send the events."""
        try:
            await self._send_all(send)
        except ClientGoneError:
            _LOGGER.info("the client went away in the middle of a stream")
        except OSError:
            _LOGGER.info("the connection of a stream broke")
        finally:
            await self._events.aclose()
            await self._close()

    async def _send_all(self, send: Send) -> None:
        await send(
            {"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers}
        )
        try:
            async for event in self._events:
                await _send_part(send, event)
        except ApiError as error:
            await _send_part(send, sse(error.body()))
        await _send_part(send, DONE)
        await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _send_part(send: Send, part: bytes) -> None:
    await send({"type": "http.response.body", "body": part, "more_body": True})
