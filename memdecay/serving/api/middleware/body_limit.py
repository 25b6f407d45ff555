"""Reads a request's body before anything else is spent on it, up to a limit in size and time."""

from __future__ import annotations

import asyncio

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from memdecay.serving.api.errors import ApiError


class _GoneError(Exception):
    """The client went before its body was here."""


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
        try:
            self._check_claim(Headers(scope=scope).get("content-length"))
            async with asyncio.timeout(self._timeout_s):
                body = await self._read(receive)
        except ApiError as error:
            await error.response()(scope, receive, send)
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
            await self._app(scope, _replay(body, receive), send)

    def _check_claim(self, length: str | None) -> None:
        if length is not None and length.isdecimal() and int(length) > self._max_bytes:
            raise self._too_long()

    async def _read(self, receive: Receive) -> bytes:
        body = bytearray()
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise _GoneError
            body += message.get("body", b"")
            if len(body) > self._max_bytes:
                raise self._too_long()
            if not message.get("more_body", False):
                return bytes(body)

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
