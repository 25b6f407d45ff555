"""From the body of a request to what the engine is asked for."""

from __future__ import annotations

import dataclasses
import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from memdecay.classifier.messages import content_text
from memdecay.serving.api.config import ServerConfig
from memdecay.serving.api.errors import ApiError, bad_request
from memdecay.serving.api.schemas.chat import ChatRequest, ForcedTool, Message, tool_definitions
from memdecay.serving.api.schemas.common import (
    CompressedTool,
    SamplingFields,
)
from memdecay.serving.api.schemas.completions import CompletionRequest
from memdecay.serving.api.tool_calls import forced_call
from memdecay.serving.compression import compress_tool_result
from memdecay.serving.engine.request import GenerationRequest

_READABLE_PARTS = ("text", "input_text", "output_text", "refusal")
_RESULT_ROLES = ("tool", "function")


@dataclasses.dataclass(frozen=True, slots=True)
class Caller:
    """Who asks, and under which names.

    Attributes:
        tenant: The tenant.
        request_id: The request's name, which the client may have chosen.
        session_id: The session that a header names; None if none does.
    """

    tenant: str
    request_id: str
    session_id: str | None


@dataclasses.dataclass(frozen=True, slots=True)
class Prepared:
    """A request for the engine and what was done to the client's.

    Attributes:
        generation: The request.
        compressed: Tool results that were shortened.
        reads_calls: Whether calls in the answer are for the client.
    """

    generation: GenerationRequest
    compressed: tuple[CompressedTool, ...] = ()
    reads_calls: bool = False


def prepare_chat(body: ChatRequest, caller: Caller, config: ServerConfig) -> Prepared:
    """Turn a conversation into a request for the engine.

    Raises:
        ApiError: It asks for what this server can't do.
    """
    _check_common(body)
    _check_chat(body)
    messages, compressed = read_messages(body.messages, config)
    tools = tool_definitions(body.tools)
    forced = _forced_output(body, tools, messages) if body.forced_output is None else None
    shows_tools = bool(tools) and body.tool_choice != "none"
    generation = _generation(
        body,
        caller,
        messages=tuple(messages),
        tools=tools if shows_tools else (),
        max_tokens=body.token_limit,
        pins=tuple(body.pins or ()),
        # Texts that end what a model writes by itself may stand in the call that it has to make.
        stop=() if forced else body.stops,
        forced_output=forced or body.forced_output,
    )
    return Prepared(generation, compressed, reads_calls=shows_tools)


def read_messages(
    messages: Sequence[Message], config: ServerConfig
) -> tuple[list[dict[str, Any]], tuple[CompressedTool, ...]]:
    """Return a conversation as the model reads it, and which tool results were shortened.

    Raises:
        ApiError: A message has a part that is no text.
    """
    for index, message in enumerate(messages):
        _check_parts(index, message)
    given = [message.to_openai() for message in messages]
    return (given, ()) if config.compress_tools is None else _compress(given, config.compress_tools)


def prepare_completion(body: CompletionRequest, caller: Caller) -> Prepared:
    """Turn a prompt into a request for the engine.

    Raises:
        ApiError: It asks for what this server can't do.
    """
    _check_common(body)
    prompt = body.single_prompt
    if prompt is None:
        raise bad_request("prompt: one prompt a request, got several; send them apart", "prompt")
    for name in ("echo", "suffix", "logprobs"):
        if getattr(body, name):
            raise _not_supported(name)
    if body.best_of not in (None, 1):
        raise _not_supported("best_of")
    generation = _generation(
        body,
        caller,
        prompt=prompt,
        max_tokens=body.max_tokens,
        stop=body.stops,
        forced_output=body.forced_output,
    )
    return Prepared(generation)


def _generation(body: SamplingFields, caller: Caller, **fields: Any) -> GenerationRequest:
    try:
        return GenerationRequest(
            tenant=caller.tenant,
            session_id=_session_id(body.session_id, caller.session_id),
            sampling=body.sampling,
            cache_salt=body.cache_salt or "",
            prompt_cache_key=body.prompt_cache_key or "",
            # Two tenants may give the same name, and cancelling goes by it.
            request_id=f"{caller.request_id}-{uuid.uuid4().hex[:12]}",
            **fields,
        )
    except ValueError as error:
        raise bad_request(str(error)) from error


def _check_common(body: SamplingFields) -> None:
    if body.n not in (None, 1):
        raise bad_request(f"n: one answer a request, got {body.n}; send n requests", "n")
    for name in ("presence_penalty", "frequency_penalty", "logit_bias"):
        if getattr(body, name):
            raise _not_supported(name)
    if body.stream_options is not None and not body.stream:
        raise bad_request("stream_options: only for a stream; set stream to true", "stream_options")


def _check_chat(body: ChatRequest) -> None:
    if body.logprobs:
        raise _not_supported("logprobs")
    if body.response_format and body.response_format.get("type") != "text":
        raise bad_request("response_format: only the type text is served here", "response_format")
    if body.tool_choice not in (None, "none", "auto") and not body.tools:
        raise bad_request("tool_choice: there are no tools to choose from", "tool_choice")


def _check_parts(index: int, message: Message) -> None:
    if not isinstance(message.content, list):
        return
    for part in message.content:
        if part.type not in _READABLE_PARTS:
            raise bad_request(
                f"messages.{index}.content: the model reads text only, got a part of the type "
                f"{part.type!r}",
                f"messages.{index}.content",
            )


def _not_supported(name: str) -> ApiError:
    return bad_request(f"{name}: not supported by this server; leave it out", name)


def _session_id(in_body: str | None, in_header: str | None) -> str | None:
    if in_body and in_header and in_body != in_header:
        raise bad_request("session_id: body and X-Session-Id name two sessions", "session_id")
    return in_body or in_header


def _forced_output(
    body: ChatRequest, tools: Sequence[Mapping[str, Any]], messages: Sequence[Mapping[str, Any]]
) -> str | None:
    choice = body.tool_choice
    if choice in (None, "none", "auto"):
        return None
    name = choice.function.name if isinstance(choice, ForcedTool) else None
    try:
        return forced_call(tools, name, messages).to_text()
    except ValueError as error:
        raise bad_request(str(error), "tool_choice") from error


def _compress(
    messages: Sequence[dict[str, Any]], max_characters: int
) -> tuple[list[dict[str, Any]], tuple[CompressedTool, ...]]:
    roles = [message["role"] for message in messages]
    num_answered = len(roles) - roles[::-1].index("assistant") if "assistant" in roles else 0
    compressed = []
    shortened = []
    for index, message in enumerate(messages):
        if message["role"] in _RESULT_ROLES:
            text = content_text(message["content"])
            result = compress_tool_result(text, max_characters)
            if result.is_cut:
                message = message | {"content": result.text}
                shortened.append(
                    CompressedTool(
                        message=index,
                        characters=len(text),
                        kept_characters=len(result.text),
                        # Of what came in earlier turns the client has been told.
                        text=result.text if index >= num_answered else None,
                    )
                )
        compressed.append(message)
    return compressed, tuple(shortened)
