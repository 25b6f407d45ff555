"""`/v1/models` and `/tokenize`: what is served, and how it counts."""

from __future__ import annotations

import asyncio

from fastapi import APIRouter

from memdecay.serving.api.errors import bad_request, engine_error
from memdecay.serving.api.generation import read_messages
from memdecay.serving.api.routes.caller import CallerOf, ServicesOf
from memdecay.serving.api.schemas.chat import tool_definitions
from memdecay.serving.api.schemas.common import error_responses
from memdecay.serving.api.schemas.sessions import (
    ModelBody,
    ModelList,
    TokenizeRequest,
    TokenizeResponse,
)
from memdecay.serving.api.services import Services
from memdecay.serving.engine.request import GenerationRequest, RequestRefusedError

router = APIRouter(tags=["OpenAI"])


@router.get("/v1/models", responses=error_responses(), summary="List the models")
async def list_models(services: ServicesOf) -> ModelList:
    """Return the model under each of its names."""
    names = (services.engine.model_name, *services.config.aliases)
    return ModelList(data=[_model(services, name) for name in names])


@router.get("/v1/models/{name:path}", responses=error_responses(404), summary="Look at a model")
async def get_model(name: str, services: ServicesOf) -> ModelBody:
    """Return one model."""
    services.check_model(name)
    return _model(services, name)


@router.post(
    "/tokenize", responses=error_responses(404, 408), summary="Count the tokens of a prompt"
)
async def tokenize(
    body: TokenizeRequest, caller: CallerOf, services: ServicesOf
) -> TokenizeResponse:
    """Return the tokens that a prompt or a conversation has for the model."""
    services.check_model(body.model)
    if (body.prompt is None) == (body.messages is None):
        raise bad_request("send either prompt or messages, exactly one of them")
    messages, _ = read_messages(body.messages or (), services.config)
    generation = GenerationRequest(
        tenant=caller.tenant,
        messages=tuple(messages),
        prompt=body.prompt,
        tools=tool_definitions(body.tools),
    )
    try:
        tokens = await asyncio.to_thread(services.engine.tokenize, generation)
    except RequestRefusedError as refused:
        raise engine_error(refused.kind, str(refused)) from refused
    return TokenizeResponse(
        count=len(tokens), max_model_len=services.engine.max_context, tokens=list(tokens)
    )


def _model(services: Services, name: str) -> ModelBody:
    return ModelBody(
        id=name,
        created=services.started_s,
        owned_by="memdecay",
        max_model_len=services.engine.max_context,
    )
