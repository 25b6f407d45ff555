"""A streamed answer, timed."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import httpx2

_PREFIX = "data:"
_DONE = "[DONE]"


class AnswerError(Exception):
    """A server gave no answer; the text says why."""


@dataclass(frozen=True, slots=True)
class TimedAnswer:
    """An answer and its times.

    Attributes:
        text: The answer.
        first_token_s: Seconds to its first text, or to the end where it is empty.
        total_s: Seconds to its end.
        prompt_tokens: Tokens of the conversation; None where the server does not tell.
        cached_tokens: How many of them were not read again; None where it does not tell.
        answer_tokens: Tokens of the answer; None where it does not tell.
    """

    text: str
    first_token_s: float
    total_s: float
    prompt_tokens: int | None
    cached_tokens: int | None
    answer_tokens: int | None


async def timed_answer(
    client: httpx2.AsyncClient,
    messages: Sequence[Mapping[str, str]],
    fields: Mapping[str, Any],
) -> TimedAnswer:
    """Ask for an answer as a stream.

    Args:
        client: A client of the server.
        messages: The conversation.
        fields: What else the request says, such as the model.

    Raises:
        AnswerError: The server refused, failed, or could not be reached.
    """
    body = {"messages": list(messages), "stream": True, **fields}
    reader = _StreamReader(time.perf_counter())
    try:
        async with client.stream("POST", "/v1/chat/completions", json=body) as response:
            if response.status_code != 200:
                text = (await response.aread()).decode(errors="replace")
                raise AnswerError(f"status {response.status_code}: {_sentence(text)}")
            async for line in response.aiter_lines():
                reader.read(line)
    except httpx2.HTTPError as error:
        raise AnswerError(f"{type(error).__name__}: {error}") from error
    return reader.answer()


class _StreamReader:
    """Gathers an answer from the lines of its stream."""

    def __init__(self, started: float) -> None:
        self._started = started
        self._pieces: list[str] = []
        self._first: float | None = None
        self._usage: Mapping[str, Any] = {}

    def read(self, line: str) -> None:
        """Take a line in.

        Raises:
            AnswerError: It tells of an error, or is no JSON.
        """
        data = line.removeprefix(_PREFIX).strip()
        if not line.startswith(_PREFIX) or data == _DONE:
            return
        try:
            chunk = json.loads(data)
        except ValueError as error:
            raise AnswerError(f"a line of the stream is no JSON: {data[:80]!r}") from error
        if "error" in chunk:
            raise AnswerError(_sentence(data))
        self._usage = chunk.get("usage") or self._usage
        for choice in chunk.get("choices") or ():
            piece = (choice.get("delta") or {}).get("content")
            if piece:
                self._first = self._first or time.perf_counter()
                self._pieces.append(piece)

    def answer(self) -> TimedAnswer:
        """Return the whole answer, which has just ended."""
        now = time.perf_counter()
        details = self._usage.get("prompt_tokens_details") or {}
        return TimedAnswer(
            text="".join(self._pieces),
            first_token_s=(self._first or now) - self._started,
            total_s=now - self._started,
            prompt_tokens=self._usage.get("prompt_tokens"),
            cached_tokens=details.get("cached_tokens"),
            answer_tokens=self._usage.get("completion_tokens"),
        )


def _sentence(text: str) -> str:
    try:
        error = json.loads(text).get("error", text)
    except (ValueError, AttributeError):
        return text[:200]
    return str(error.get("message", error) if isinstance(error, dict) else error)[:200]
