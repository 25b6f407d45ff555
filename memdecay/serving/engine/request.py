"""What a client asks of the engine, and how the engine says no."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from memdecay.classifier.errors import MemdecayError
from memdecay.runtime.sampling import SamplingConfig


class ErrorKind(StrEnum):
    """Why a request was refused or failed; the server turns it into a status."""

    INVALID_REQUEST = "invalid_request"
    TOO_LONG = "too_long"
    QUEUE_FULL = "queue_full"
    SESSION_BUSY = "session_busy"
    CANCELLED = "cancelled"
    SHUTTING_DOWN = "shutting_down"
    INTERNAL = "internal"


class RequestRefusedError(MemdecayError):
    """A request that is not going to run; nothing of it has been read.

    Attributes:
        kind: Why.
    """

    def __init__(self, kind: ErrorKind, message: str) -> None:
        super().__init__(message)
        self.kind = kind


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerationRequest:
    """One turn: a whole conversation, or a raw prompt, to be continued.

    Attributes:
        tenant: Whose request it is; nothing is ever shared between two tenants but the public
            prefix that the operator declares.
        messages: OpenAI chat messages, the whole conversation; empty for a raw prompt.
        prompt: Text or token ids to continue as they are, in place of messages.
        session_id: The session to go on with, by the client's name; None finds the session with
            the longest matching beginning, among those that have no name.
        tools: OpenAI tool definitions that the model is told of.
        sampling: Temperature, top_p and seed.
        max_tokens: Most tokens of the answer; None takes the engine's default.
        stop: Texts before which the answer ends, without them.
        pins: Indices of messages of which no token may be evicted before the session's next
            request, which names its own; negative ones count from the end.
        cache_salt: Sessions and prefixes are found only by requests with the same salt.
        prompt_cache_key: As ``cache_salt``; the name under which OpenAI clients send it.
        forced_output: Text or token ids that the model is made to say, through the ordinary
            decoding, in place of what it would choose.
        request_id: Name of the request in events, logs and `ServingEngine.cancel`.
    """

    tenant: str
    messages: tuple[Mapping[str, Any], ...] = ()
    prompt: str | tuple[int, ...] | None = None
    session_id: str | None = None
    tools: tuple[Mapping[str, Any], ...] = ()
    sampling: SamplingConfig = field(default_factory=SamplingConfig)
    max_tokens: int | None = None
    stop: tuple[str, ...] = ()
    pins: tuple[int, ...] = ()
    cache_salt: str = ""
    prompt_cache_key: str = ""
    forced_output: str | tuple[int, ...] | None = None
    request_id: str = field(default_factory=lambda: uuid.uuid4().hex)

    def __post_init__(self) -> None:
        """Check what can be checked without the model.

        Raises:
            ValueError: There are both messages and a prompt, or neither, or a value is out of its
                range.
        """
        if bool(self.messages) == (self.prompt is not None):
            raise ValueError("a request needs either messages or a prompt, exactly one of them")
        if self.prompt is not None and len(self.prompt) == 0:
            raise ValueError("prompt must have at least one character or token, got none")
        if self.max_tokens is not None and self.max_tokens < 1:
            raise ValueError(f"max_tokens must be 1 or more, got {self.max_tokens}")
        if not all(self.stop):
            raise ValueError("stop must hold texts of at least one character, got an empty one")
        if self.session_id == "":
            raise ValueError("session_id must not be empty; leave it out for a session without one")
        for index in self.pins:
            if not -len(self.messages) <= index < len(self.messages):
                raise ValueError(
                    f"pins must name messages from 0 to {len(self.messages) - 1}, got {index}"
                )
