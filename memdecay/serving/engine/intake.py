"""Make a request ready to wait: rendered, tokenized, and known to fit."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from functools import partial

from memdecay.classifier.text import TextMemo
from memdecay.runtime.reply_text import ReplyText
from memdecay.runtime.sampling import Sampler
from memdecay.serving.engine.events import Listener
from memdecay.serving.engine.parts import Parts
from memdecay.serving.engine.request import GenerationRequest
from memdecay.serving.engine.turns.answer import Answer
from memdecay.serving.engine.turns.fit import check_bytes, check_memory
from memdecay.serving.engine.turns.limit import PromptLimit, longest_text
from memdecay.serving.engine.turns.prompt import Prompt, count_prompt, make_prompt
from memdecay.serving.engine.turns.turn import Turn

_MIN_TEXTS = 16


class Intake:
    """Prepares requests; may be used from any thread.

    Args:
        parts: The engine's parts.
        clock: Returns the time in seconds.
    """

    def __init__(self, parts: Parts, clock: Callable[[], float]) -> None:
        self._parts = parts
        self._clock = clock
        self._texts = TextMemo(max(_MIN_TEXTS, 2 * parts.config.max_sessions))
        # Tokenizers change settings of their own while they work.
        self._tokenizer_lock = threading.Lock()
        self._max_characters = longest_text(parts.llm.tokenizer, parts.llm.max_context)

    def read(self, request: GenerationRequest) -> Prompt:
        """Render and tokenize a request.

        Raises:
            RequestRefusedError: It can't be rendered, gives no tokens, or is too long.
        """
        with self._tokenizer_lock:
            read = partial(self._texts.read, owner=_owner(request))
            return make_prompt(request, self._parts.llm.tokenizer, self._limit(request), read)

    def count(self, request: GenerationRequest) -> tuple[int, ...]:
        """Return the tokens of a request's prompt, which may have more than fit.

        Raises:
            RequestRefusedError: It can't be rendered, or has more characters than ever fit.
        """
        with self._tokenizer_lock:
            tokens = count_prompt(request, self._parts.llm.tokenizer, self._limit(request))
        return tuple(tokens.tolist())

    def prepare(self, request: GenerationRequest, listener: Listener) -> Turn:
        """Return what waits for its beginning.

        Raises:
            RequestRefusedError: It can't be rendered, or does not fit.
        """
        submitted_at = self._clock()
        parts, config = self._parts, self._parts.config
        prompt = self.read(request)
        room = parts.llm.max_context - len(prompt.tokens)
        max_tokens = request.max_tokens or min(config.default_max_tokens, room)
        if parts.evicts:
            check_memory(request, prompt, config.cache)
        needed_bytes = parts.reserve_bytes(len(prompt.tokens) + max_tokens)
        check_bytes(needed_bytes, config.kv_memory_bytes)
        return Turn(
            request=request,
            prompt=prompt,
            max_tokens=max_tokens,
            forced_ids=self._forced_ids(request),
            answer=Answer(parts.llm.tokenizer, request.stop),
            sampler=Sampler(request.sampling, parts.llm.device),
            listener=listener,
            submitted_at=submitted_at,
            reply_text=ReplyText(
                parts.llm.tokenizer, partial(self._texts.reader, owner=_owner(request))
            ),
        )

    def _limit(self, request: GenerationRequest) -> PromptLimit:
        max_context = self._parts.llm.max_context
        return PromptLimit(max_context, request.max_tokens or 1, self._max_characters)

    def _forced_ids(self, request: GenerationRequest) -> tuple[int, ...] | None:
        forced = request.forced_output
        if not isinstance(forced, str):
            return forced
        # What is longer than the model's context is never said.
        text = forced[: self._max_characters]
        with self._tokenizer_lock:
            encoding = self._parts.llm.tokenizer(text, add_special_tokens=False)
        return tuple(encoding["input_ids"])


def _owner(request: GenerationRequest) -> Hashable:
    """Return between whom nothing may show, not even by the time that an answer takes."""
    return request.tenant, request.cache_salt, request.prompt_cache_key
