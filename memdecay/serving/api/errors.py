"""Refusals in the shape of OpenAI's errors."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from starlette.responses import Response

from memdecay.serving.engine.request import ErrorKind

_RETRY_AFTER_S = 1
_FIELD = re.compile("[a-z0-9_-]+")
_TYPES = ("str", "int", "float", "bool", "none", "constrained-str", "constrained-int")


class ApiError(Exception):
    """A request that gets an error instead of an answer.

    Attributes:
        status: The HTTP status.
        message: One sentence for the client.
        type: OpenAI's kind of error.
        param: The field at fault, if there is one.
        code: A word for programs.
        headers: Headers of the response.
    """

    def __init__(
        self,
        status: int,
        message: str,
        *,
        param: str | None = None,
        code: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.type = _error_type(status)
        self.param = param
        self.code = code
        self.headers = dict(headers or {})
        if status in (429, 503):
            self.headers.setdefault("Retry-After", str(_RETRY_AFTER_S))

    def body(self) -> dict[str, Any]:
        """Return the error as a client reads it."""
        return {
            "error": {
                "message": self.message,
                "type": self.type,
                "param": self.param,
                "code": self.code,
            }
        }

    def response(self) -> Response:
        """Return the HTTP response."""
        return json_response(self.body(), self.status, self.headers)


_STATUS = {
    ErrorKind.INVALID_REQUEST: (400, None),
    ErrorKind.TOO_LONG: (400, "context_length_exceeded"),
    ErrorKind.QUEUE_FULL: (429, "queue_full"),
    ErrorKind.SESSION_BUSY: (409, "session_busy"),
    ErrorKind.CANCELLED: (503, "cancelled"),
    ErrorKind.SHUTTING_DOWN: (503, "shutting_down"),
    ErrorKind.INTERNAL: (500, "internal_error"),
}


def engine_error(kind: ErrorKind, message: str) -> ApiError:
    """Return what a client is told of a refusal or failure of the engine."""
    status, code = _STATUS[kind]
    return ApiError(status, message, code=code)


def bad_request(message: str, param: str | None = None) -> ApiError:
    """Return the error for a request that asks for what can't be done."""
    return ApiError(400, message, param=param)


def validation_error(errors: Sequence[Mapping[str, Any]]) -> ApiError:
    """Return one sentence for what pydantic found wrong, in OpenAI's status for it.

    Args:
        errors: At least one of pydantic's error dictionaries.
    """
    first = errors[0]
    # The first part says where the field stands (body, query), the others which it is; between
    # them stand the names of types where several are allowed.
    param = ".".join(str(part) for part in first["loc"][1:] if _is_field(part)) or None
    if first["type"] == "json_invalid":
        return bad_request("the body is not JSON; send one JSON object")
    if len(first["loc"]) == 1:
        return bad_request("the body is missing or no JSON object; send one JSON object")
    message = str(first["msg"]).removeprefix("Value error, ")
    more = f" ({len(errors) - 1} more)" if len(errors) > 1 else ""
    return bad_request(f"{param}: {message}{more}" if param else f"{message}{more}", param)


def _is_field(part: str | int) -> bool:
    return isinstance(part, int) or (_FIELD.fullmatch(part) is not None and part not in _TYPES)


def json_response(
    data: Any, status: int = 200, headers: Mapping[str, str] | None = None
) -> Response:
    """Return a JSON response; lone surrogates stay escaped, which plain UTF-8 couldn't carry."""
    return Response(
        json.dumps(data).encode("ascii"), status, dict(headers or {}), "application/json"
    )


def _error_type(status: int) -> str:
    if status in (401, 403):
        return "authentication_error"
    if status == 429:
        return "rate_limit_error"
    return "server_error" if status >= 500 else "invalid_request_error"
