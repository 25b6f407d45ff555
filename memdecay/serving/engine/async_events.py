"""An engine's events for code that awaits them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from memdecay.serving.engine.events import Event, Failed, Finished
from memdecay.serving.engine.interface import RequestHandle, ServingEngine
from memdecay.serving.engine.request import GenerationRequest


@asynccontextmanager
async def request_events(
    engine: ServingEngine, request: GenerationRequest
) -> AsyncIterator[AsyncIterator[Event]]:
    """Submit a request without blocking the event loop; cancel it if the block ends before it.

    A client that goes away so frees its place, at whatever moment it goes.

    Args:
        engine: A started engine.
        request: The request.

    Yields:
        The events; the last is `Finished` or `Failed`.

    Raises:
        RequestRefusedError: See `ServingEngine.submit`.
    """
    loop = asyncio.get_running_loop()
    queue: asyncio.Queue[Event] = asyncio.Queue()
    ended = asyncio.Event()

    def listen(event: Event) -> None:
        # The loop may be closed when a server ends while a request still runs.
        if not loop.is_closed():
            loop.call_soon_threadsafe(queue.put_nowait, event)

    submitting = asyncio.ensure_future(asyncio.to_thread(engine.submit, request, listen))
    try:
        await asyncio.shield(submitting)
        yield _until_the_last(queue, ended)
    finally:
        if not ended.is_set():
            # Where the client went during the submission itself, that ends first.
            submitting.add_done_callback(lambda done: _cancel_taken_in(engine, request, done))


async def _until_the_last(
    queue: asyncio.Queue[Event], ended: asyncio.Event
) -> AsyncIterator[Event]:
    while not ended.is_set():
        event = await queue.get()
        if isinstance(event, Finished | Failed):
            ended.set()
        yield event


def _cancel_taken_in(
    engine: ServingEngine, request: GenerationRequest, done: asyncio.Future[RequestHandle]
) -> None:
    if not done.cancelled() and done.exception() is None:
        # The engine may be in the middle of a step, for which the loop must not wait.
        done.get_loop().run_in_executor(None, engine.cancel, request.request_id)
