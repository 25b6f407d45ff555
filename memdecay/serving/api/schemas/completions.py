"""The bodies of `/v1/completions`."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field

from memdecay.serving.api.schemas.common import MemoryBody, SamplingFields, Usage

TokenIds = Annotated[
    list[Annotated[int, Field(ge=0, le=2**31 - 1)]], Field(min_length=1, max_length=1_048_576)
]
Prompt = Annotated[str, Field(min_length=1)]


class CompletionRequest(SamplingFields):
    """A prompt that the model is to go on with."""

    prompt: (
        Prompt
        | TokenIds
        | Annotated[list[Prompt], Field(min_length=1)]
        | Annotated[list[TokenIds], Field(min_length=1)]
    )
    echo: bool | None = None
    suffix: str | None = None
    best_of: int | None = None
    logprobs: int | None = None

    @property
    def single_prompt(self) -> str | tuple[int, ...] | None:
        """The prompt; None if there are several."""
        prompt: Any = self.prompt
        if isinstance(prompt, list) and not isinstance(prompt[0], int):
            if len(prompt) > 1:
                return None
            prompt = prompt[0]
        return prompt if isinstance(prompt, str) else tuple(prompt)


class CompletionChoice(BaseModel):
    """The only choice; in a stream, a piece of it."""

    index: int = 0
    text: str
    logprobs: None = None
    finish_reason: Literal["stop", "length"] | None


class Completion(BaseModel):
    """What the model wrote, or a piece of it."""

    id: str
    object: Literal["text_completion"] = "text_completion"
    created: int
    model: str
    choices: list[CompletionChoice]
    usage: Usage | None = Field(default=None, exclude_if=lambda value: value is None)
    memdecay: MemoryBody | None = Field(default=None, exclude_if=lambda value: value is None)
