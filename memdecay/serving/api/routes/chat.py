"""`/v1/chat/completions`."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator

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
from memdecay.serving.api.generation import Prepared, prepare_chat
from memdecay.serving.api.routes.answering import answer, answer_in_stream
from memdecay.serving.api.routes.caller import CallerOf, ServicesOf
from memdecay.serving.api.schemas.chat import (
    AnswerMessage,
    CallDelta,
    ChatChoice,
    ChatChunk,
    ChatCompletion,
    ChatRequest,
    ChunkChoice,
    Delta,
    FinishReasonName,
)
from memdecay.serving.api.schemas.common import error_responses, stream_response
from memdecay.serving.api.tool_calls import Said, ToolCallReader, read_calls
from memdecay.serving.api.turn import Turn
from memdecay.serving.engine.events import Finished, Started

router = APIRouter(tags=["OpenAI"])


@router.post(
    "/v1/chat/completions",
    response_model=ChatCompletion,
    responses=error_responses(404, 408, 409) | stream_response("ChatChunk"),
    summary="Let the model answer a conversation",
)
async def chat_completions(
    body: ChatRequest, request: Request, caller: CallerOf, services: ServicesOf
) -> Response:
    """Answer a conversation; with ``stream`` as server-sent events of `ChatChunk`."""
    services.check_model(body.model)
    prepared = prepare_chat(body, caller, services.config)
    reply = _ChatReply(body, prepared, body.model)
    if body.stream:
        return await answer_in_stream(services, request, prepared, reply.stream)
    return await answer(services, request, prepared, reply.whole)


class _ChatReply:
    """Puts an answer into OpenAI's shape, whole or in pieces."""

    def __init__(self, body: ChatRequest, prepared: Prepared, model: str) -> None:
        self._body = body
        self._prepared = prepared
        self._model = model
        self._id = f"chatcmpl-{prepared.generation.request_id}"
        self._created = int(time.time())

    def whole(self, started: Started, finished: Finished) -> Response:
        """Return the whole answer."""
        text, calls = finished.text, None
        if self._prepared.reads_calls:
            text, found = read_calls(finished.text)
            calls = list(found) or None
        message = AnswerMessage(content=text or (None if calls else ""), tool_calls=calls)
        completion = ChatCompletion(
            id=self._id,
            created=self._created,
            model=self._model,
            choices=[
                ChatChoice(message=message, finish_reason=_finish_reason(finished, bool(calls)))
            ],
            usage=usage_body(finished),
            memdecay=memory_body(finished, self._prepared.compressed, self._body.ignored),
        )
        headers = started_headers(started, self._prepared.compressed) | finished_headers(finished)
        return json_response(completion.model_dump(mode="json"), headers=headers)

    async def stream(self, turn: Turn, ping_s: float) -> AsyncGenerator[bytes, None]:
        """Yield the answer's events."""
        yield self._chunk(Delta(role="assistant", content=""))
        reader = ToolCallReader() if self._prepared.reads_calls else None
        num_calls = 0
        finished: Finished | None = None
        while finished is None:
            event = await turn.next(ping_s)
            if event is None:
                yield PING
                continue
            if isinstance(event, Finished):
                finished = event
                said = reader.finish() if reader else []
            else:
                said = reader.feed(event.text) if reader else [Said(event.text)]
            for piece in said:
                yield self._chunk(_delta(piece, num_calls))
                num_calls += piece.call is not None
        yield self._last_chunk(finished, num_calls > 0)
        if self._body.includes_usage:
            usage = ChatChunk(
                id=self._id,
                created=self._created,
                model=self._model,
                choices=[],
                usage=usage_body(finished),
            )
            yield self._event(usage)

    def _last_chunk(self, finished: Finished, has_calls: bool) -> bytes:
        chunk = ChatChunk(
            id=self._id,
            created=self._created,
            model=self._model,
            choices=[ChunkChoice(delta=Delta(), finish_reason=_finish_reason(finished, has_calls))],
            memdecay=memory_body(finished, self._prepared.compressed, self._body.ignored),
        )
        return self._event(chunk)

    def _chunk(self, delta: Delta) -> bytes:
        chunk = ChatChunk(
            id=self._id,
            created=self._created,
            model=self._model,
            choices=[ChunkChoice(delta=delta)],
        )
        return self._event(chunk)

    def _event(self, chunk: ChatChunk) -> bytes:
        return chunk_event(chunk, includes_usage=self._body.includes_usage)


def _delta(piece: Said, index: int) -> Delta:
    if piece.call is None:
        return Delta(content=piece.text)
    return Delta(tool_calls=[CallDelta(index=index, **piece.call.model_dump())])


def _finish_reason(finished: Finished, has_calls: bool) -> FinishReasonName:
    if finished.finish_reason == "length":
        return "length"
    return "tool_calls" if has_calls else "stop"
