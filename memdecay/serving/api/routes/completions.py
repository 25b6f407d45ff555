"""`/v1/completions`."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator
from typing import Literal

from fastapi import APIRouter, Request
from starlette.responses import Response

from memdecay.serving.api.answers import (
    finished_headers,
    memory_body,
    started_headers,
    usage_body,
)
from memdecay.serving.api.errors import json_response
from memdecay.serving.api.event_stream import PING, chunk_event
from memdecay.serving.api.generation import Prepared, prepare_completion
from memdecay.serving.api.routes.answering import answer, answer_in_stream
from memdecay.serving.api.routes.caller import CallerOf, ServicesOf
from memdecay.serving.api.schemas.common import error_responses, stream_response
from memdecay.serving.api.schemas.completions import (
    Completion,
    CompletionChoice,
    CompletionRequest,
)
from memdecay.serving.api.turn import Turn
from memdecay.serving.engine.events import Finished, Started

router = APIRouter(tags=["OpenAI"])


@router.post(
    "/v1/completions",
    response_model=Completion,
    responses=error_responses(404, 408, 409) | stream_response("Completion"),
    summary="Let the model go on with a prompt",
)
async def completions(
    body: CompletionRequest, request: Request, caller: CallerOf, services: ServicesOf
) -> Response:
    """Go on with a prompt; with ``stream`` as server-sent events of `Completion`."""
    services.check_model(body.model)
    prepared = prepare_completion(body, caller)
    reply = _Reply(body, prepared, body.model)
    if body.stream:
        return await answer_in_stream(services, request, prepared, reply.stream)
    return await answer(services, request, prepared, reply.whole)


class _Reply:
    """Puts an answer into OpenAI's shape, whole or in pieces."""

    def __init__(self, body: CompletionRequest, prepared: Prepared, model: str) -> None:
        self._body = body
        self._model = model
        self._id = f"cmpl-{prepared.generation.request_id}"
        self._created = int(time.time())

    def whole(self, started: Started, finished: Finished) -> Response:
        """Return the whole answer."""
        completion = self._last(finished, finished.text)
        completion.usage = usage_body(finished)
        return json_response(
            completion.model_dump(mode="json"),
            headers=started_headers(started, ()) | finished_headers(finished),
        )

    async def stream(self, turn: Turn, ping_s: float) -> AsyncGenerator[bytes, None]:
        """Yield the answer's events."""
        while not isinstance(event := await turn.next(ping_s), Finished):
            if event is None:
                yield PING
            else:
                choice = CompletionChoice(text=event.text, finish_reason=None)
                yield self._event(self._completion([choice]))
        yield self._event(self._last(event, ""))
        if self._body.includes_usage:
            usage = self._completion([])
            usage.usage = usage_body(event)
            yield self._event(usage)

    def _last(self, finished: Finished, text: str) -> Completion:
        reason: Literal["stop", "length"] = (
            "length" if finished.finish_reason == "length" else "stop"
        )
        completion = self._completion([CompletionChoice(text=text, finish_reason=reason)])
        completion.memdecay = memory_body(finished, (), self._body.ignored)
        return completion

    def _event(self, completion: Completion) -> bytes:
        return chunk_event(completion, includes_usage=self._body.includes_usage)

    def _completion(self, choices: list[CompletionChoice]) -> Completion:
        return Completion(id=self._id, created=self._created, model=self._model, choices=choices)
