"""Health, metrics, status and the built-in page."""

from __future__ import annotations

import asyncio

from fastapi import APIRouter
from fastapi.responses import HTMLResponse, PlainTextResponse
from prometheus_client import CONTENT_TYPE_LATEST
from starlette.responses import Response

from memdecay import __version__
from memdecay.serving.api.errors import ApiError
from memdecay.serving.api.page import load_page
from memdecay.serving.api.routes.caller import ServicesOf
from memdecay.serving.api.schemas.common import ErrorBody, error_responses
from memdecay.serving.api.schemas.sessions import Health, StatusBody, status_body

router = APIRouter(tags=["Watching"])


@router.get(
    "/health",
    responses={503: {"model": ErrorBody}},
    summary="Ask whether the server takes requests; needs no key",
)
async def health(services: ServicesOf) -> Health:
    """Answer, without waiting for the model."""
    if not services.engine.is_working:
        raise ApiError(503, "the engine takes no requests: it stops or has failed")
    return Health()


@router.get(
    "/metrics",
    response_class=PlainTextResponse,
    responses=error_responses(),
    summary="Read the metrics in Prometheus' format",
)
async def metrics(services: ServicesOf) -> Response:
    """Return the metrics."""
    text = await asyncio.to_thread(services.instruments.exposition)
    return Response(text, headers={"Content-Type": CONTENT_TYPE_LATEST})


@router.get("/v1/status", responses=error_responses(), summary="Look at the server")
async def status(services: ServicesOf) -> StatusBody:
    """Return the server's figures."""
    engine = services.engine
    stats = await asyncio.to_thread(engine.stats)
    return status_body(stats, engine.model_name, __version__, engine.max_context)


@router.get("/", response_class=HTMLResponse, include_in_schema=False)
async def page() -> Response:
    """Return the page that shows the sessions and the memory."""
    built = load_page()
    return HTMLResponse(
        built.html,
        headers={
            "Content-Security-Policy": built.policy,
            "Referrer-Policy": "no-referrer",
            "X-Content-Type-Options": "nosniff",
        },
    )
