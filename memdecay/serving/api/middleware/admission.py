"""Bounds how many requests wait or run at one time."""

from __future__ import annotations

from collections import Counter

from starlette.types import ASGIApp, Receive, Scope, Send

from memdecay.serving.api.errors import ApiError

LIMITED_PATHS = ("/v1/chat/completions", "/v1/completions", "/tokenize")


class Admission:
    """Refuses what the server has no room for, before its body is read.

    Args:
        app: What comes behind it.
        max_requests: Most requests of all tenants together.
        max_tenant_requests: Most requests of one tenant; None for no limit of its own.
    """

    def __init__(self, app: ASGIApp, max_requests: int, max_tenant_requests: int | None) -> None:
        self._app = app
        self._max_requests = max_requests
        self._max_tenant_requests = max_tenant_requests
        self._running: Counter[str] = Counter()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, and hold its place until its answer has ended."""
        if scope["type"] != "http" or scope["path"] not in LIMITED_PATHS:
            await self._app(scope, receive, send)
            return
        tenant = scope["state"]["tenant"]
        refusal = self._refusal(tenant)
        if refusal is not None:
            await refusal.response()(scope, receive, send)
            return
        self._running[tenant] += 1
        try:
            await self._app(scope, receive, send)
        finally:
            self._running[tenant] -= 1
            self._running += Counter()  # Drops the tenants without requests.

    def _refusal(self, tenant: str) -> ApiError | None:
        if self._running.total() >= self._max_requests:
            limit, whose = self._max_requests, "this server"
        elif (
            self._max_tenant_requests is not None
            and self._running[tenant] >= self._max_tenant_requests
        ):
            limit, whose = self._max_tenant_requests, "your key"
        else:
            return None
        return ApiError(
            429,
            f"{limit} requests of {whose} are waiting or running already; try again later",
            code="too_many_requests",
        )
