"""One request on its way: what it waits for, what it has said, what it tells its client."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from memdecay.runtime.reply_text import ReplyText
from memdecay.runtime.sampling import Sampler
from memdecay.runtime.tagging import Writing
from memdecay.runtime.transcript import TokenTable
from memdecay.serving.engine.events import (
    Delta,
    Divergence,
    Event,
    Failed,
    Finished,
    FinishReason,
    Listener,
    MemoryReport,
    Origin,
    Started,
    Tier,
    Timings,
    Usage,
)
from memdecay.serving.engine.request import ErrorKind, GenerationRequest
from memdecay.serving.engine.sessions.session import ServedSession
from memdecay.serving.engine.turns.answer import Answer
from memdecay.serving.engine.turns.prompt import Prompt

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Beginning:
    """How a request found its session.

    Attributes:
        session: The session.
        num_prompt_tokens: Tokens of the conversation before the answer. Earlier answers count with
            the tokens that were chosen, which the prompt's text alone need not have.
        num_cached_tokens: How many of them need not be run again.
        origin: Where they came from.
        restored_from: The tier in which the session lay.
        divergence: Where the session had read something else.
        notes: Sentences for the client.
        evicted_before: Tokens evicted in the session until then, by region name.
    """

    session: ServedSession
    num_prompt_tokens: int
    num_cached_tokens: int
    origin: Origin
    restored_from: Tier
    divergence: Divergence | None
    notes: tuple[str, ...]
    evicted_before: Mapping[str, int]


@dataclass(slots=True, eq=False)
class Turn:
    """A request between `ServingEngine.submit` and its last event.

    Attributes:
        request: The request.
        prompt: Its prompt.
        max_tokens: Most tokens of the answer.
        forced_ids: Tokens that the model is made to say; None lets it choose.
        answer: The answer so far.
        sampler: Chooses its tokens.
        listener: Gets the events.
        submitted_at: Time of its submission.
        begun_at: Time of the first work on it; None while it waits.
        first_token_at: Time of the answer's first token.
        beginning: How it found its session; None while it waits.
        is_cancelled: Whether it is to end at the next step.
        num_reported: Tokens of the answer that were told of.
        reply_text: Follows the answer's text for the classifier; None leaves it unknown.
    """

    request: GenerationRequest
    prompt: Prompt
    max_tokens: int
    forced_ids: tuple[int, ...] | None
    answer: Answer
    sampler: Sampler
    listener: Listener
    submitted_at: float
    begun_at: float | None = None
    first_token_at: float | None = None
    beginning: Beginning | None = None
    is_cancelled: bool = False
    num_reported: int = field(default=0)
    reply_text: ReplyText | None = None

    @property
    def session(self) -> ServedSession:
        """The session of a request that has begun."""
        assert self.beginning is not None, "the request has begun"
        return self.beginning.session

    def begin(self, beginning: Beginning, now: float) -> None:
        """Note the session and tell of it."""
        self.beginning = beginning
        self.begun_at = now
        self._emit(
            Started(
                session_id=beginning.session.session_id,
                num_prompt_tokens=beginning.num_prompt_tokens,
                num_cached_tokens=beginning.num_cached_tokens,
                origin=beginning.origin,
                restored_from=beginning.restored_from,
                divergence=beginning.divergence,
                notes=beginning.notes,
            )
        )

    def unread(self) -> TokenTable:
        """Return the tokens of the prompt that are still to be run."""
        tokens = self.session.transcript.tokens
        memory = self.session.memory
        return tokens.part(0 if memory is None else memory.num_tokens, len(tokens))

    def pinned_among(self, start: int, num_tokens: int) -> NDArray[np.bool_] | None:
        """Tell which of the next tokens of the prompt are pinned; None if it pins nothing."""
        tokens = self.session.transcript.tokens
        if not self.request.pins or start >= len(tokens):
            return None
        is_pinned = self.prompt.pinned_tokens(self.request.pins, tokens)
        return is_pinned[start : start + num_tokens]

    def answer_tokens(self) -> TokenTable:
        """Return the answer's tokens; one that is still to be run knows its text."""
        transcript, memory = self.session.transcript, self.session.memory
        tokens = self.prompt.answer_tokens(transcript, self.answer.token_ids)
        num_run = 0 if memory is None else memory.num_tokens
        if not len(tokens) or num_run >= len(transcript.tokens) + len(tokens):
            return tokens
        return tokens.part(0, len(tokens) - 1).followed_by(self.newest())

    def newest(self) -> TokenTable:
        """Return the newest token of the answer, which is still to be run."""
        tokens = self.prompt.answer_tokens(self.session.transcript, self.answer.token_ids)
        newest = tokens.part(len(tokens) - 1, len(tokens))
        conversation = self.prompt.conversation
        if self.reply_text is None or conversation is None or conversation.rendered is None:
            return newest
        messages = conversation.rendered.sources
        return newest.with_text(self.reply_text.newest(messages, self.answer.token_ids))

    def tell_tagger(self, *, is_finished: bool) -> None:
        """Tell the session's tagger of the answer so far.

        Args:
            is_finished: Whether no more tokens follow.
        """
        memory, start = self.session.memory, len(self.session.transcript.tokens)
        if memory is None or memory.tagger is None:
            return
        reading = self.prompt.reading(start, start)
        if reading is not None:
            writing = Writing(reading.messages, self.answer.token_ids, start, is_finished)
            memory.tagger.write(writing, memory.cache)

    def choose(self, logits: Tensor) -> int | None:
        """Return the next token; None ends a forced answer.

        Args:
            logits: ``(vocab_size,)``, any float type.
        """
        if self.forced_ids is None:
            return self.sampler.pick(logits)
        num_said = len(self.answer)
        return self.forced_ids[num_said] if num_said < len(self.forced_ids) else None

    def say(self, token_id: int, now: float) -> None:
        """Add a token to the answer and tell of its text."""
        if self.first_token_at is None:
            self.first_token_at = now
        self._tell(self.answer.add(token_id))

    def flush(self) -> None:
        """Tell of the text that still waited; the answer is whole then."""
        self._tell(self.answer.finish())

    def finish(
        self, reason: FinishReason, memory: MemoryReport, *, num_stop: int, now: float
    ) -> None:
        """Tell of the end; `flush` comes first.

        Args:
            reason: Why it ended.
            memory: What the session remembers.
            num_stop: Stop tokens that were chosen, which are no part of the answer.
            now: The time.
        """
        beginning = self.beginning
        assert beginning is not None, "the request has begun"
        self._emit(
            Finished(
                finish_reason=reason,
                text=self.answer.text,
                token_ids=self.answer.token_ids,
                usage=Usage(
                    beginning.num_prompt_tokens,
                    beginning.num_cached_tokens,
                    len(self.answer) + num_stop,
                ),
                memory=memory,
                timings=self._timings(now),
                divergence=beginning.divergence,
            )
        )

    def fail(self, kind: ErrorKind, message: str) -> None:
        """Tell of an end without an answer."""
        self._emit(Failed(kind, message))

    def _emit(self, event: Event) -> None:
        try:
            self.listener(event)
        except Exception:  # A client's fault must not end the engine.
            extra = {"request_id": self.request.request_id}
            logger.exception("a listener failed; its request is cancelled", extra=extra)
            self.is_cancelled = True

    def _tell(self, text: str) -> None:
        if text:
            new_ids = self.answer.token_ids[self.num_reported :]
            self.num_reported = max(self.num_reported, len(self.answer))
            self._emit(Delta(text, new_ids))

    def _timings(self, now: float) -> Timings:
        assert self.begun_at is not None, "the request has begun"
        first = self.first_token_at
        return Timings(
            queue_s=self.begun_at - self.submitted_at,
            first_token_s=None if first is None else first - self.submitted_at,
            total_s=now - self.submitted_at,
        )
