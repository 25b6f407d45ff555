"""Reads a request's body before anything else is spent on it, up to a limit in size and time."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from memdecay.serving.api.errors import ApiError

_SILENCE_S = 1.0
_DISCARDED_SHARE = 8
"""Of a body that is refused, so many times what would be allowed is read on."""


class _GoneError(Exception):
    """The client went before its body was here."""


class _Body:
    """A body as it comes."""

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self.is_whole = False

    async def part(self) -> bytes:
        """Return the next bytes.

        Raises:
            _GoneError: The client has gone.
        """
        message = await self._receive()
        if message["type"] == "http.disconnect":
            raise _GoneError
        self.is_whole = not message.get("more_body", False)
        part: bytes = message.get("body", b"")
        return part


class BodyLimit:
    """Refuses bodies that are too long or too slow, whatever length they claim.

    Args:
        app: What comes behind it; gets the body in one piece.
        max_bytes: Largest body.
        timeout_s: Seconds within which it must have come.
    """

    def __init__(self, app: ASGIApp, max_bytes: int, timeout_s: float) -> None:
        self._app = app
        self._max_bytes = max_bytes
        self._timeout_s = timeout_s

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        body = _Body(receive)
        try:
            self._check_claim(Headers(scope=scope).get("content-length"))
            async with asyncio.timeout(self._timeout_s):
                content = await self._read(body)
        except ApiError as error:
            await self._refuse(error, body, scope, receive, send)
        except TimeoutError:
            too_slow = ApiError(
                408,
                f"the body did not come within {self._timeout_s:g} s; send it at once",
                headers={"Connection": "close"},
            )
            await too_slow.response()(scope, receive, send)
        except _GoneError:
            return
        else:
            await self._app(scope, _replay(content, receive), send)

    def _check_claim(self, length: str | None) -> None:
        if length is not None and length.isdecimal() and int(length) > self._max_bytes:
            raise self._too_long()

    async def _read(self, body: _Body) -> bytes:
        content = bytearray()
        while not body.is_whole:
            content += await body.part()
            if len(content) > self._max_bytes:
                raise self._too_long()
        return bytes(content)

    async def _refuse(
        self, error: ApiError, body: _Body, scope: Scope, receive: Receive, send: Send
    ) -> None:
        """Answer at once, but read on before the connection is closed.

        A client that still sends when its connection is closed gets an error of the network's
        instead of the answer.
        """

        async def send_open(message: Message) -> None:
            is_body = message["type"] == "http.response.body"
            await send({**message, "more_body": True} if is_body else message)

        await error.response()(scope, receive, send_open)
        with suppress(TimeoutError, _GoneError):
            async with asyncio.timeout(self._timeout_s):
                await self._discard(body)
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _discard(self, body: _Body) -> None:
        num_bytes = 0
        while not body.is_whole and num_bytes <= _DISCARDED_SHARE * self._max_bytes:
            async with asyncio.timeout(_SILENCE_S):
                num_bytes += len(await body.part())

    def _too_long(self) -> ApiError:
        return ApiError(
            413,
            f"the body is longer than the {self._max_bytes} bytes that this server takes",
            code="body_too_large",
            headers={"Connection": "close"},
        )


def _replay(body: bytes, receive: Receive) -> Receive:
    is_sent = False

    async def replay() -> Message:
        nonlocal is_sent
        if is_sent:
            return await receive()
        is_sent = True
        return {"type": "http.request", "body": body, "more_body": False}

    return replay
