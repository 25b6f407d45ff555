"""What bodies of several routes have in common."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from memdecay.runtime.sampling import SamplingConfig

MIN_SEED, MAX_SEED = -(2**63), 2**63 - 1
MAX_STOPS = 16

SESSION_PATTERN = r"^[A-Za-z0-9._:@-]{1,128}$"
SessionId = Annotated[str, StringConstraints(pattern=SESSION_PATTERN)]
StopText = Annotated[str, Field(min_length=1)]
ErrorKindName = Literal[
    "invalid_request_error", "authentication_error", "rate_limit_error", "server_error"
]


class ErrorDetail(BaseModel):
    """What went wrong."""

    message: str
    type: ErrorKindName
    param: str | None
    code: str | None


class ErrorBody(BaseModel):
    """An error as OpenAI's clients read it."""

    error: ErrorDetail


class SamplingFields(BaseModel):
    """The fields of a request that say how tokens are chosen.

    Fields that are not known are kept aside and named in the response: they change nothing.
    """

    model_config = ConfigDict(extra="allow")

    model: str
    max_tokens: int | None = Field(default=None, ge=1, le=2**31 - 1)
    temperature: float | None = Field(default=None, ge=0, le=2)
    top_p: float | None = Field(default=None, gt=0, le=1)
    seed: int | None = Field(default=None, ge=MIN_SEED, le=MAX_SEED)
    stop: StopText | Annotated[list[StopText], Field(max_length=MAX_STOPS)] | None = None
    n: int | None = Field(default=None, ge=1)
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    logit_bias: dict[str, float] | None = None
    session_id: SessionId | None = Field(default=None, description="The session to go on with.")
    cache_salt: str | None = Field(default=None, max_length=256)
    prompt_cache_key: str | None = Field(default=None, max_length=256)
    forced_output: str | None = Field(
        default=None, min_length=1, description="Text that the model is made to say (for replays)."
    )

    @property
    def sampling(self) -> SamplingConfig:
        """How tokens are chosen; OpenAI's temperature is 1 where none is given."""
        return SamplingConfig(
            1.0 if self.temperature is None else self.temperature,
            1.0 if self.top_p is None else self.top_p,
            self.seed,
        )

    @property
    def stops(self) -> tuple[str, ...]:
        """The stop texts."""
        return (self.stop,) if isinstance(self.stop, str) else tuple(self.stop or ())

    @property
    def includes_usage(self) -> bool:
        """Whether a stream ends with a chunk of usage."""
        return bool(self.stream_options and self.stream_options.include_usage)

    @property
    def ignored(self) -> list[str]:
        """Names of fields that are not known, in order."""
        return sorted(self.model_extra or {})


class StreamOptions(BaseModel):
    """Options of a stream."""

    model_config = ConfigDict(extra="ignore")

    include_usage: bool | None = None


SamplingFields.model_rebuild()


class PromptTokensDetails(BaseModel):
    """Where the prompt's tokens came from."""

    cached_tokens: int


class Usage(BaseModel):
    """Tokens of one request."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    prompt_tokens_details: PromptTokensDetails


class CompressedTool(BaseModel):
    """A tool result that was shortened before the model read it."""

    message: int = Field(description="Index of the message.")
    characters: int = Field(description="Its length as it came.")
    kept_characters: int = Field(description="Its length as the model read it, marks included.")
    text: str | None = Field(
        default=None,
        exclude_if=lambda value: value is None,
        description="What the model read in its place; only if it came behind the newest answer.",
    )


class DivergenceBody(BaseModel):
    """Where the conversation stopped being the one that the session had read."""

    token_index: int
    is_read_again: bool
    reason: str


class MemoryBody(BaseModel):
    """What the session remembers, and what this request made it forget."""

    session_id: str
    tokens_seen: int
    tokens_kept: int
    kept_per_region: Mapping[str, int]
    kept_per_precision: Mapping[str, int] = Field(
        description="Kept tokens by the bits that they have faded to; full for those that have "
        "lost nothing."
    )
    evicted_per_region: Mapping[str, int]
    newly_evicted_per_region: Mapping[str, int]
    kv_bytes: int
    notes: list[str]
    divergence: DivergenceBody | None
    compressed_tools: list[CompressedTool]
    ignored_fields: list[str]


def stream_response(events: str) -> dict[int | str, dict[str, Any]]:
    """Return what a route's documentation says of its streams.

    Args:
        events: Name of the body that each event carries.
    """
    description = f"The answer; as a stream, events of `{events}` and `[DONE]`"
    content = {"text/event-stream": {"schema": {"type": "string"}}}
    return {200: {"description": description, "content": content}}


def error_responses(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Return the errors of a route for its documentation, those that every route has included."""
    every = (400, 401, 413, 429, 500, 503)
    return {"4XX": {"model": ErrorBody}} | {
        status: {"model": ErrorBody} for status in sorted({*every, *statuses})
    }
