"""Lets nobody in without a key, but for the health route."""

from __future__ import annotations

import base64
import binascii

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from memdecay.serving.api.config import LOCAL_NAMES
from memdecay.serving.api.errors import ApiError
from memdecay.serving.api.keys import ANONYMOUS_TENANT, ApiKeys

OPEN_PATHS = ("/health",)


class Authentication:
    """Finds the tenant of a request.

    The key comes as ``Authorization: Bearer KEY``, or as the password of basic authentication,
    which browsers ask for by themselves.

    Args:
        app: What comes behind it.
        keys: The keys; None lets everybody in as one tenant, but only under a local host name, so
            that no web page can reach the server through a name of its own.
    """

    def __init__(self, app: ASGIApp, keys: ApiKeys | None) -> None:
        self._app = app
        self._keys = keys

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, with its tenant in ``scope["state"]``."""
        if scope["type"] == "http" and scope["path"] not in OPEN_PATHS:
            try:
                scope.setdefault("state", {})["tenant"] = self._tenant(Headers(scope=scope))
            except ApiError as error:
                await error.response()(scope, receive, send)
                return
        await self._app(scope, receive, send)

    def _tenant(self, headers: Headers) -> str:
        if self._keys is None:
            _check_host(headers.get("host", ""))
            return ANONYMOUS_TENANT
        key = _key(headers.get("authorization", ""))
        if key is None:
            raise _unauthorized("this server needs an API key; send it as `Authorization: Bearer`")
        tenant = self._keys.tenant_of(key)
        if tenant is None:
            raise _unauthorized("the API key is not known here; check it with the operator")
        return tenant


def _key(authorization: str) -> str | None:
    scheme, _, value = authorization.partition(" ")
    value = value.strip()
    if scheme.lower() == "bearer":
        return value or None
    if scheme.lower() == "basic":
        try:
            pair = base64.b64decode(value, validate=True).decode()
        except (binascii.Error, UnicodeDecodeError):
            return None
        return pair.partition(":")[2] or None
    return None


def _unauthorized(message: str) -> ApiError:
    return ApiError(
        401,
        message,
        code="invalid_api_key",
        headers={"WWW-Authenticate": 'Basic realm="memdecay: the password is an API key"'},
    )


def _check_host(host: str) -> None:
    name = host if host.endswith("]") else host.rsplit(":", 1)[0] if ":" in host else host
    if name not in LOCAL_NAMES:
        raise ApiError(
            403,
            f"a server without API keys answers to {', '.join(LOCAL_NAMES[:3])} only; use one of "
            "them or start it with --api-keys",
            code="host_not_allowed",
        )
