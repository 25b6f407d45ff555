"""The bodies of `/v1/chat/completions`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from memdecay.serving.api.schemas.common import MemoryBody, SamplingFields, Usage

FinishReasonName = Literal["stop", "length", "tool_calls"]
FunctionName = Annotated[str, Field(min_length=1, max_length=128)]


class ContentPart(BaseModel):
    """A part of a message whose content is a list."""

    model_config = ConfigDict(extra="allow")

    type: str
    text: str | None = None


class FunctionCall(BaseModel):
    """A call's function and its arguments as JSON text."""

    model_config = ConfigDict(extra="allow")

    name: str
    arguments: str | dict[str, Any] = ""


class MessageCall(BaseModel):
    """A call that an assistant's message bears."""

    model_config = ConfigDict(extra="allow")

    id: str | None = None
    type: Literal["function"] = "function"
    function: FunctionCall


class Message(BaseModel):
    """A message of the conversation."""

    model_config = ConfigDict(extra="allow")

    role: Literal["system", "developer", "user", "assistant", "tool", "function"]
    content: str | list[ContentPart] | None = None
    name: str | None = None
    tool_calls: list[MessageCall] | None = None
    tool_call_id: str | None = None

    def to_openai(self) -> dict[str, Any]:
        """Return the message for the engine; a developer speaks as the system."""
        data = self.model_dump(exclude_none=True)
        data["role"] = "system" if self.role == "developer" else self.role
        data.setdefault("content", None)
        return data


class FunctionDefinition(BaseModel):
    """A function that the model may call."""

    model_config = ConfigDict(extra="allow")

    name: FunctionName
    description: str | None = None
    parameters: dict[str, Any] | None = None


class Tool(BaseModel):
    """A tool that the model is told of."""

    model_config = ConfigDict(extra="allow")

    type: Literal["function"]
    function: FunctionDefinition


class NamedFunction(BaseModel):
    """The name of a function."""

    name: FunctionName


class ForcedTool(BaseModel):
    """A tool that has to be called."""

    type: Literal["function"]
    function: NamedFunction


class ChatRequest(SamplingFields):
    """A conversation that the model is to go on with."""

    messages: list[Message] = Field(min_length=1)
    max_completion_tokens: int | None = Field(default=None, ge=1, le=2**31 - 1)
    tools: list[Tool] | None = Field(default=None, max_length=256)
    tool_choice: Literal["none", "auto", "required"] | ForcedTool | None = None
    response_format: dict[str, Any] | None = None
    logprobs: bool | None = None
    pins: list[int] | None = Field(
        default=None, max_length=1024, description="Messages that are never evicted."
    )

    @property
    def token_limit(self) -> int | None:
        """Most tokens of the answer; None leaves it to the server."""
        return self.max_completion_tokens or self.max_tokens


class CalledFunction(BaseModel):
    """A function that the model calls."""

    name: str
    arguments: str


class Call(BaseModel):
    """A call that the model makes."""

    id: str
    type: Literal["function"] = "function"
    function: CalledFunction


class AnswerMessage(BaseModel):
    """The model's answer."""

    role: Literal["assistant"] = "assistant"
    content: str | None
    tool_calls: list[Call] | None = Field(default=None, exclude_if=lambda value: value is None)
    refusal: None = None
    annotations: list[Any] = []


class ChatChoice(BaseModel):
    """The only choice."""

    index: int = 0
    message: AnswerMessage
    logprobs: None = None
    finish_reason: FinishReasonName


class ChatCompletion(BaseModel):
    """An answer."""

    id: str
    object: Literal["chat.completion"] = "chat.completion"
    created: int
    model: str
    choices: list[ChatChoice]
    usage: Usage
    memdecay: MemoryBody


class CallDelta(Call):
    """A call in a stream; it comes whole."""

    index: int


class Delta(BaseModel):
    """What is new in the answer."""

    role: Literal["assistant"] | None = Field(default=None, exclude_if=lambda value: value is None)
    content: str | None = Field(default=None, exclude_if=lambda value: value is None)
    tool_calls: list[CallDelta] | None = Field(default=None, exclude_if=lambda value: value is None)


class ChunkChoice(BaseModel):
    """The only choice, in a stream."""

    index: int = 0
    delta: Delta
    logprobs: None = None
    finish_reason: FinishReasonName | None = None


class ChatChunk(BaseModel):
    """A piece of an answer."""

    id: str
    object: Literal["chat.completion.chunk"] = "chat.completion.chunk"
    created: int
    model: str
    choices: list[ChunkChoice]
    usage: Usage | None = Field(default=None, exclude_if=lambda value: value is None)
    memdecay: MemoryBody | None = Field(default=None, exclude_if=lambda value: value is None)


def tool_definitions(tools: list[Tool] | None) -> tuple[Mapping[str, Any], ...]:
    """Return the tools for the engine."""
    return tuple(tool.model_dump(exclude_none=True) for tool in tools or ())
