"""What the routes work with, made once for each application."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import cast

from starlette.requests import Request

from memdecay.serving.api.config import ServerConfig
from memdecay.serving.api.errors import ApiError
from memdecay.serving.api.keys import ApiKeys
from memdecay.serving.api.metrics import Instruments
from memdecay.serving.engine.interface import ServingEngine


@dataclass(frozen=True, slots=True)
class Services:
    """What the routes work with.

    Attributes:
        engine: Runs the requests.
        config: The server's settings.
        keys: The API keys; None lets everybody in as one tenant.
        instruments: The metrics.
        started_s: When the server began, in seconds since 1970.
    """

    engine: ServingEngine
    config: ServerConfig
    keys: ApiKeys | None
    instruments: Instruments
    started_s: int = field(default_factory=lambda: int(time.time()))

    def check_model(self, name: str | None) -> None:
        """Refuse a model that is not served here.

        Raises:
            ApiError: The name is another model's.
        """
        known = (self.engine.model_name, *self.config.aliases)
        if name is not None and name not in known:
            raise ApiError(
                404,
                f"the model {name!r} is not served here; ask for {' or '.join(map(repr, known))}",
                param="model",
                code="model_not_found",
            )


def services(request: Request) -> Services:
    """Return the application's services."""
    return cast("Services", request.app.state.services)


def tenant(request: Request) -> str:
    """Return whose request it is, as the authentication found."""
    return cast("str", request.state.tenant)


def request_id(request: Request) -> str:
    """Return the request's name in logs and headers."""
    return cast("str", request.state.request_id)
