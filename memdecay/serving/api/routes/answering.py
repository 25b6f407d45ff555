"""Running a request for a route, with the whole answer at once or in pieces."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack

from fastapi import Request
from starlette.responses import Response

from memdecay.serving.api.answers import started_headers
from memdecay.serving.api.event_stream import EventStream
from memdecay.serving.api.generation import Prepared
from memdecay.serving.api.services import Services
from memdecay.serving.api.turn import ClientGoneError, Turn, running_turn
from memdecay.serving.engine.events import Finished, Started

_NOBODY_READS = 499


async def answer(
    services: Services,
    request: Request,
    prepared: Prepared,
    respond: Callable[[Started, Finished], Response],
) -> Response:
    """Wait for the whole answer.

    Raises:
        ApiError: The request was refused, failed or was cancelled by the server.
    """
    try:
        async with running_turn(services, request, prepared.generation) as turn:
            started = await turn.begin()
            return respond(started, await turn.finish())
    except ClientGoneError:
        return Response(status_code=_NOBODY_READS)


async def answer_in_stream(
    services: Services,
    request: Request,
    prepared: Prepared,
    events: Callable[[Turn, float], AsyncGenerator[bytes, None]],
) -> Response:
    """Return a stream once the request has begun, so that a refusal still has its status.

    Raises:
        ApiError: The request was refused, or failed before it began.
    """
    async with AsyncExitStack() as stack:
        try:
            turn = await stack.enter_async_context(
                running_turn(services, request, prepared.generation)
            )
            started = await turn.begin()
        except ClientGoneError:
            return Response(status_code=_NOBODY_READS)
        # From here on the stream ends the turn.
        kept = stack.pop_all()
        return EventStream(
            events(turn, services.config.ping_s),
            kept.aclose,
            started_headers(started, prepared.compressed),
        )
    raise AssertionError("the block returns or raises")
