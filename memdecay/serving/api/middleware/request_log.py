"""Names each request, logs and counts it, and turns a fault of ours into an error of OpenAI's."""

from __future__ import annotations

import logging
import re
import time
import uuid
from collections.abc import Callable, Sequence

from starlette.datastructures import Headers, MutableHeaders
from starlette.routing import BaseRoute, Match
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from memdecay.serving.api.errors import ApiError
from memdecay.serving.api.logs import current_request_id

_LOGGER = logging.getLogger("memdecay.serving.access")
_REQUEST_ID = re.compile(r"[A-Za-z0-9._:-]{1,64}")
_NO_ANSWER = 499  # nginx' number for a client that went before the answer.

OnAnswer = Callable[[str, int], None]


class RequestLog:
    """The outermost layer.

    Args:
        app: What comes behind it.
        on_answer: Gets the route and the status of each request.
        routes: Where requests can go. One that was refused on its way (no key, too large) counts
            for the route it meant.
    """

    def __init__(self, app: ASGIApp, on_answer: OnAnswer, routes: Sequence[BaseRoute]) -> None:
        self._app = app
        self._on_answer = on_answer
        self._routes = routes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request_id = _request_id(Headers(scope=scope).get("x-request-id"))
        scope.setdefault("state", {})["request_id"] = request_id
        token = current_request_id.set(request_id)
        start = time.perf_counter()
        status = _NO_ANSWER

        async def send_named(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                MutableHeaders(scope=message)["x-request-id"] = request_id
            await send(message)

        try:
            await self._app(scope, receive, send_named)
        except Exception:
            _LOGGER.exception("a request failed through a fault of the server")
            if status == _NO_ANSWER:
                error = ApiError(500, "the server failed at this request", code="internal_error")
                await error.response()(scope, receive, send_named)
        finally:
            self._report(scope, status, time.perf_counter() - start)
            current_request_id.reset(token)

    def _report(self, scope: Scope, status: int, seconds: float) -> None:
        route = self._route(scope)
        self._on_answer(route, status)
        _LOGGER.info(
            "request",
            extra={
                "method": scope["method"],
                "route": route,
                "status": status,
                "duration_ms": round(1000 * seconds, 1),
                "tenant": scope["state"].get("tenant"),
                "client": (scope.get("client") or (None,))[0],
            },
        )

    def _route(self, scope: Scope) -> str:
        matching = (route for route in self._routes if route.matches(scope)[0] is not Match.NONE)
        route = scope.get("route") or next(matching, None)
        # The template of the path: session ids are the tenant's own and make no label.
        return str(getattr(route, "path", "other"))


def _request_id(given: str | None) -> str:
    return given if given and _REQUEST_ID.fullmatch(given) else f"req-{uuid.uuid4().hex}"
