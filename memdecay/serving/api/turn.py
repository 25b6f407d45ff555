"""One engine request on behalf of one HTTP client, who may go away at any moment."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from starlette.requests import Request

from memdecay.serving.api.errors import ApiError, engine_error
from memdecay.serving.api.services import Services
from memdecay.serving.engine.async_events import request_events
from memdecay.serving.engine.events import Delta, Event, Failed, Finished, Started
from memdecay.serving.engine.request import GenerationRequest, RequestRefusedError


class ClientGoneError(Exception):
    """The client has closed the connection."""


class Turn:
    """The events of a request.

    Attributes:
        started: The first event.
    """

    def __init__(
        self, events: AsyncIterator[Event], gone: asyncio.Future[None], services: Services
    ) -> None:
        self._events = events
        self._gone = gone
        self._services = services
        self._clock = services.instruments.token_clock()
        self._next: asyncio.Future[Event] | None = None
        self.started: Started | None = None

    async def begin(self) -> Started:
        """Wait until the request has its session.

        Raises:
            ApiError: It failed before.
            ClientGoneError: The client has gone.
        """
        event = await self._event(None)
        assert isinstance(event, Started), "the engine's first event is Started or Failed"
        self.started = event
        return event

    async def next(self, timeout_s: float | None = None) -> Delta | Finished | None:
        """Return the next event; None if none came in time.

        Raises:
            ApiError: The request failed or was cancelled by the server.
            ClientGoneError: The client has gone.
        """
        event = await self._event(timeout_s)
        if isinstance(event, Delta):
            self._clock.tick(event)
        if isinstance(event, Finished):
            self._services.instruments.finished(event)
            if event.finish_reason == "cancelled":
                raise ApiError(
                    503,
                    "the answer was cut short: its session was deleted or the server stops; send "
                    "the request again",
                    code="cancelled",
                )
        assert not isinstance(event, Started | Failed), "Started comes once, Failed is raised"
        return event

    async def finish(self) -> Finished:
        """Wait for the end.

        Raises:
            ApiError: The request failed or was cancelled by the server.
            ClientGoneError: The client has gone.
        """
        while True:
            event = await self.next()
            if isinstance(event, Finished):
                return event

    async def _event(self, timeout_s: float | None) -> Event | None:
        # A wait that ran out of time goes on at the next call: an iterator can't be asked twice.
        if self._next is None:
            self._next = asyncio.ensure_future(_next_of(self._events))
        waiting: set[asyncio.Future[Any]] = {self._next, self._gone}
        done, _ = await asyncio.wait(
            waiting, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED
        )
        if self._next in done:
            event = self._next.result()
            self._next = None
            if isinstance(event, Failed):
                raise engine_error(event.kind, event.message)
            return event
        if self._gone in done:
            raise ClientGoneError
        return None

    def close(self) -> None:
        """Stop waiting."""
        if self._next is not None:
            self._next.cancel()


@asynccontextmanager
async def running_turn(
    services: Services, request: Request, generation: GenerationRequest
) -> AsyncIterator[Turn]:
    """Run a request while the block runs; what ends the block early cancels the request.

    Args:
        services: The application's services.
        request: The HTTP request, whose body has been read.
        generation: What to run.

    Raises:
        ApiError: The engine refuses it.
    """
    gone = asyncio.ensure_future(_disconnected(request))
    try:
        async with request_events(services.engine, generation) as events:
            turn = Turn(events, gone, services)
            try:
                yield turn
            finally:
                turn.close()
    except RequestRefusedError as refused:
        raise engine_error(refused.kind, str(refused)) from refused
    finally:
        gone.cancel()
        await asyncio.wait({gone})


async def _next_of(events: AsyncIterator[Event]) -> Event:
    return await anext(events)


async def _disconnected(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
