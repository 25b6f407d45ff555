"""The application: routes behind the layers that every request passes."""

from __future__ import annotations

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.responses import Response

from memdecay import __version__
from memdecay.serving.api.config import ServerConfig
from memdecay.serving.api.errors import ApiError, engine_error, validation_error
from memdecay.serving.api.keys import ApiKeys
from memdecay.serving.api.metrics import Instruments
from memdecay.serving.api.middleware.admission import Admission
from memdecay.serving.api.middleware.authentication import Authentication
from memdecay.serving.api.middleware.body_limit import BodyLimit
from memdecay.serving.api.middleware.request_log import RequestLog
from memdecay.serving.api.routes import chat, completions, models, sessions, watching
from memdecay.serving.api.services import Services
from memdecay.serving.engine.interface import ServingEngine
from memdecay.serving.engine.request import RequestRefusedError


def create_app(
    engine: ServingEngine, config: ServerConfig | None = None, keys: ApiKeys | None = None
) -> FastAPI:
    """Return the ASGI application for an engine.

    The engine is not started or stopped here: see `memdecay.serving.api.server.serve`.

    Args:
        engine: Runs the requests.
        config: The server's settings.
        keys: The API keys; None lets everybody in as one tenant, under local host names.
    """
    config = config or ServerConfig()
    instruments = Instruments(engine.stats)
    app = FastAPI(
        title="memdecay",
        version=__version__,
        description="OpenAI's chat API over KV caches that forget like a memory.",
        redoc_url=None,
    )
    routers = [module.router for module in (chat, completions, models, sessions, watching)]
    for router in routers:
        app.include_router(router)
    _add_error_handlers(app)
    app.user_middleware = [
        Middleware(
            RequestLog,
            on_answer=instruments.answered,
            routes=[route for router in routers for route in router.routes],
        ),
        Middleware(Authentication, keys=keys),
        Middleware(Admission, config.max_requests, config.max_tenant_requests),
        Middleware(BodyLimit, config.max_body_bytes, config.body_timeout_s),
    ]
    app.state.services = Services(engine, config, keys, instruments)
    return app


def _add_error_handlers(app: FastAPI) -> None:
    @app.exception_handler(ApiError)
    async def on_api_error(_: Request, error: ApiError) -> Response:
        return error.response()

    @app.exception_handler(RequestRefusedError)
    async def on_refusal(_: Request, refused: RequestRefusedError) -> Response:
        return engine_error(refused.kind, str(refused)).response()

    @app.exception_handler(RequestValidationError)
    async def on_validation_error(_: Request, error: RequestValidationError) -> Response:
        return validation_error(error.errors()).response()

    @app.exception_handler(HTTPException)
    async def on_http_error(request: Request, error: HTTPException) -> Response:
        message = str(error.detail)
        if error.status_code == 404:
            message = f"there is no route {request.url.path}; see /docs"
        if error.status_code == 405:
            message = f"{request.url.path} takes no {request.method}; see /docs"
        return ApiError(error.status_code, message, headers=error.headers).response()
