"""A conversation with a language model that remembers within a budget."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from memdecay.classifier.decoder import find_decoder
from memdecay.classifier.errors import BudgetError
from memdecay.classifier.llm import LanguageModel
from memdecay.classifier.rendering import render
from memdecay.classifier.tokenization import tokenize
from memdecay.runtime.config import CacheConfig
from memdecay.runtime.engine import Engine
from memdecay.runtime.explanation import ExplainedSpan, explain
from memdecay.runtime.preparation import chunk_within_budget, make_cache, stop_ids
from memdecay.runtime.rehearsal import rehearse_fading
from memdecay.runtime.sampling import Sampler, SamplingConfig
from memdecay.runtime.stats import Meter, SessionStats
from memdecay.runtime.tagging import (
    ChatMessages,
    Reading,
    SessionTagger,
    Writing,
    begin_tagging,
)
from memdecay.runtime.text_stream import TextStream, decode_text
from memdecay.runtime.transcript import Transcript

OnLogits = Callable[[int, Tensor], None]
OnProgress = Callable[[int, int], None]

DEFAULT_CHUNK_TOKENS = 256
DEFAULT_MAX_NEW_TOKENS = 256
_DECODED_TOKENS_PER_SNAPSHOT = 16
_ASSISTANT = "assistant"


@dataclass(frozen=True, slots=True)
class Reply:
    """What the model answered.

    Attributes:
        text: The answer, without control tokens.
        token_ids: Its tokens, without the one that ended it.
        finish_reason: ``stop`` where the model ended it, ``length`` where the limit did.
        num_prompt_tokens: Tokens of the conversation before the answer.
    """

    text: str
    token_ids: tuple[int, ...]
    finish_reason: Literal["stop", "length"]
    num_prompt_tokens: int


class Session:
    """Messages in, text out; the cache is kept from turn to turn and forgets within its budget.

    Each turn renders the whole conversation with the model's chat template and runs only what is
    new. Where the template rewrites the past, the cache goes back to the first token that differs;
    where it can't, because tokens were evicted there, the conversation is read again from its
    beginning, the statistics of the cache start anew, and a warning says so.

    Args:
        llm: The language model. Its forward hooks are set only while a method runs.
        cache_config: Budget and policy.
        tagger: The classifier, or a `RuleTagger`. Without one every token is ordinary context,
            which is all that the policies ``full``, ``window`` and ``streaming`` need; the others
            then go by age and attention.
        chunk_tokens: Most tokens of one forward while reading. Less where the budget's room
            between the low watermark and its end is less.

    Raises:
        ValueError: ``chunk_tokens`` is below 1.
        ArtifactError: The classifier was trained on another language model.
        ModelError: The model has layers that the cache does not know.
        ConfigError: The policy is unknown, or needs a foresight head that is not there.
    """

    def __init__(
        self,
        llm: LanguageModel,
        cache_config: CacheConfig,
        tagger: SessionTagger | None = None,
        *,
        chunk_tokens: int = DEFAULT_CHUNK_TOKENS,
    ) -> None:
        if chunk_tokens < 1:
            raise ValueError(f"chunk_tokens must be 1 or more, got {chunk_tokens}")
        self.llm = llm
        self.tagger = tagger
        self.cache = make_cache(llm, cache_config, tagger)
        self.chunk_tokens = chunk_within_budget(chunk_tokens, self.cache)
        rehearse_fading(find_decoder(llm.model), self.cache)
        self._stop_ids = stop_ids(llm)
        self.reset()

    def reset(self) -> None:
        """Forget the conversation and begin a new one."""
        self.cache.reset()
        self._tagging = begin_tagging(self.tagger, self.llm) if self.tagger else None
        self._engine = Engine(self.llm, self.cache, self._tagging)
        self._meter = Meter(self.cache)
        self._messages: list[Mapping[str, Any]] = []
        self._transcript = Transcript.empty()
        self._pinned: set[int] = set()
        self._logits: Tensor | None = None

    @property
    def messages(self) -> tuple[Mapping[str, Any], ...]:
        """The conversation so far, replies included."""
        return tuple(self._messages)

    @property
    def token_ids(self) -> tuple[int, ...]:
        """The conversation's tokens so far; the newest may not have been run yet."""
        return tuple(self._transcript.tokens.input_ids.tolist())

    def prefill(self, messages: ChatMessages) -> None:
        """Append messages and read them.

        Args:
            messages: OpenAI chat messages, at least one.

        Raises:
            ValueError: There are none.
            TypeError: One is no mapping.
            ModelError: The tokenizer gives no character offsets.
        """
        self.feed(messages)

    def feed(
        self,
        messages: ChatMessages,
        on_logits: OnLogits | None = None,
        on_progress: OnProgress | None = None,
        pins: Collection[int] = (),
        logits_at: NDArray[np.int64] | None = None,
    ) -> None:
        """Append recorded messages, the assistant's among them, and read them as they are.

        Args:
            messages: OpenAI chat messages, at least one.
            on_logits: Called after each chunk with the position of its first token and the
                logits ``(n, vocab_size)`` of its tokens, which predict the token after each.
            on_progress: Called after each chunk with the tokens read and the tokens in all.
            pins: Which of them to `pin`, by their place among these messages. Long ones have to be
                pinned like that: a part could be forgotten before the rest is read.
            logits_at: ``(n,)``, int64, rising; `on_logits` is called only after chunks that hold
                one of these positions. The logits of a large vocabulary take a sixth of a small
                model's time.

        Raises:
            ValueError: There are none, or a pin is not one of them.
            BudgetError: A pinned message does not fit; nothing was read.
            TypeError: One is no mapping.
            ModelError: The tokenizer gives no character offsets.
        """
        _check_messages(messages)
        if outside := [place for place in pins if not 0 <= place < len(messages)]:
            raise ValueError(f"pins must be from 0 to {len(messages) - 1}, got {outside[0]}")
        pinned = {len(self._messages) + place for place in pins}
        together = [*self._messages, *messages]
        self._read(
            together,
            add_generation_prompt=False,
            on_logits=on_logits,
            on_progress=on_progress,
            pins=pinned,
            logits_at=logits_at,
        )

    def reply(
        self,
        max_new_tokens: int = DEFAULT_MAX_NEW_TOKENS,
        *,
        temperature: float = 0.0,
        top_p: float = 1.0,
        seed: int | None = None,
        on_text: Callable[[str], None] | None = None,
    ) -> Reply:
        """Let the model answer and append the answer to the conversation.

        Args:
            max_new_tokens: Most tokens of the answer.
            temperature: 0 takes the most likely token each time, above it tokens are drawn.
            top_p: See `SamplingConfig.top_p`.
            seed: Seed of the draws.
            on_text: Gets the text piece by piece while it is written.

        Raises:
            ValueError: There is no message to answer, or an argument is out of its range.
        """
        sampling = SamplingConfig(temperature, top_p, seed)
        if max_new_tokens < 1:
            raise ValueError(f"max_new_tokens must be 1 or more, got {max_new_tokens}")
        if not self._messages:
            raise ValueError("there is no message to answer; call prefill or send first")
        self._read(self._messages, add_generation_prompt=True)
        stream = TextStream(self.llm.tokenizer, on_text) if on_text else None
        num_prompt_tokens = len(self._transcript.tokens)
        token_ids, is_stopped = self._decode(max_new_tokens, sampling, stream)
        text = decode_text(self.llm.tokenizer, token_ids)
        if stream:
            stream.finish(text)
        self._append_reply(token_ids, text)
        finish_reason: Literal["stop", "length"] = "stop" if is_stopped else "length"
        return Reply(text, tuple(token_ids), finish_reason, num_prompt_tokens)

    def send(
        self,
        messages: ChatMessages,
        max_new_tokens: int = DEFAULT_MAX_NEW_TOKENS,
        *,
        temperature: float = 0.0,
        top_p: float = 1.0,
        seed: int | None = None,
        on_text: Callable[[str], None] | None = None,
    ) -> Reply:
        """Append messages and let the model answer: `prefill` and `reply` in one.

        Raises:
            ValueError: See `prefill` and `reply`.
            TypeError: See `prefill`.
            ModelError: See `prefill`.
        """
        self.prefill(messages)
        return self.reply(
            max_new_tokens, temperature=temperature, top_p=top_p, seed=seed, on_text=on_text
        )

    def pin(self, message: int) -> None:
        """Keep a message as it is from now on, whatever comes.

        Its tokens count against the budget at once and stay at the precision that they have now.

        Args:
            message: Its place in `messages`, from 0; below zero counts from the newest.

        Raises:
            ValueError: There is no such message, or a part of it was evicted already.
            BudgetError: It does not fit beside what is pinned and protected.
        """
        num_messages = len(self._messages)
        if not -num_messages <= message < num_messages:
            raise ValueError(f"message must be one of the {num_messages} so far, got {message}")
        self._pin(message % num_messages)

    def _pin(self, message: int) -> None:
        places = np.flatnonzero(self._transcript.tokens.message_index == message)
        if len(places):
            self.cache.pin(int(places[0]), int(places[-1]) + 1, self.chunk_tokens)
        self._pinned.add(message)

    def explain(self) -> tuple[ExplainedSpan, ...]:
        """Tell which stretches of text faded or were forgotten, when, and with which score.

        Stretches that later tokens' attention made key decisions are among them.
        """
        cache = self.cache
        return explain(cache.fates(), cache.late_tags(), self.token_ids, self.llm.tokenizer)

    def stats(self) -> SessionStats:
        """Return what was seen, kept and evicted, and how long it took."""
        return self._meter.stats()

    def _read(
        self,
        messages: ChatMessages,
        *,
        add_generation_prompt: bool,
        on_logits: OnLogits | None = None,
        on_progress: OnProgress | None = None,
        pins: Collection[int] = (),
        logits_at: NDArray[np.int64] | None = None,
    ) -> None:
        """Make these messages the conversation and run the tokens that are new in it."""
        tokenizer = self.llm.tokenizer
        rendered = render(messages, tokenizer, add_generation_prompt=add_generation_prompt)
        conversation = tokenize(rendered, tokenizer)
        before = self._transcript, self._messages
        self._transcript, num_same = self._transcript.update(rendered.text, conversation)
        self._messages = list(messages)
        if num_same < self.cache.tokens_seen:
            # The last token has to run in any case: the logits behind it are needed.
            self._engine.take_back(min(num_same, len(self._transcript.tokens) - 1))
        try:
            for message in sorted({*pins, *self._pinned}):
                self._pin(message)
        except (ValueError, BudgetError):
            self._transcript, self._messages = before
            raise
        if self._tagging is not None:
            num_tokens = len(self._transcript.tokens)
            self._tagging.read(Reading(messages, rendered, conversation, num_same, num_tokens))
        self._run_new(on_logits, on_progress, logits_at)

    def _run_new(
        self,
        on_logits: OnLogits | None,
        on_progress: OnProgress | None,
        logits_at: NDArray[np.int64] | None,
    ) -> None:
        tokens = self._transcript.tokens
        with self._engine.attached():
            while (start := self.cache.tokens_seen) < len(tokens):
                chunk = tokens.part(start, start + self.chunk_tokens)
                told = on_logits if _holds_any(logits_at, start, start + len(chunk)) else None
                with self._meter.prefill.time(len(chunk)):
                    logits = self._engine.run(chunk, keeps_all_logits=told is not None)
                    self._logits = logits[-1]
                    self._meter.take_snapshot()
                if told:
                    told(start, logits)
                if on_progress:
                    on_progress(self.cache.tokens_seen, len(tokens))

    def _decode(
        self, max_new_tokens: int, sampling: SamplingConfig, stream: TextStream | None
    ) -> tuple[list[int], bool]:
        """Choose tokens until the model stops; return them and whether it did."""
        sampler = Sampler(sampling, self.llm.device)
        token_ids: list[int] = []
        with self._engine.attached():
            token_id = sampler.pick(self._last_logits())
            while token_id not in self._stop_ids:
                token_ids.append(token_id)
                if stream:
                    stream.update(token_ids)
                if len(token_ids) == max_new_tokens:
                    return token_ids, False
                with self._meter.decode.time(1):
                    self._run_newest(token_ids)
                    token_id = sampler.pick(self._last_logits())
        return token_ids, True

    def _run_newest(self, token_ids: Sequence[int]) -> None:
        tokens = self._transcript.reply_tokens(token_ids, len(self._messages), _ASSISTANT)
        self._tell_tagger(token_ids, is_finished=False)
        newest = tokens.part(len(tokens) - 1, len(tokens))
        self._logits = self._engine.run(newest)[-1]
        if len(tokens) % _DECODED_TOKENS_PER_SNAPSHOT == 0:
            self._meter.take_snapshot()

    def _append_reply(self, token_ids: Sequence[int], text: str) -> None:
        tokens = self._transcript.reply_tokens(token_ids, len(self._messages), _ASSISTANT)
        self._tell_tagger(token_ids, is_finished=True)
        self._transcript = self._transcript.with_reply(tokens, text)
        self._messages.append({"role": _ASSISTANT, "content": text})
        self._meter.take_snapshot()

    def _tell_tagger(self, token_ids: Sequence[int], *, is_finished: bool) -> None:
        if self._tagging is not None:
            start = len(self._transcript.tokens)
            writing = Writing(self._messages, token_ids, start, is_finished)
            self._tagging.write(writing, self.cache)

    def _last_logits(self) -> Tensor:
        assert self._logits is not None, "a conversation has at least one token"
        return self._logits


def _holds_any(positions: NDArray[np.int64] | None, start: int, end: int) -> bool:
    """Tell whether one of the positions, of which None means all, is from start to before end."""
    if positions is None:
        return True
    low, high = np.searchsorted(positions, (start, end))
    return bool(low < high)


def _check_messages(messages: ChatMessages) -> None:
    if not messages:
        raise ValueError("expected at least one message, got none")
    for message in messages:
        if not isinstance(message, Mapping):
            raise TypeError(
                f"expected messages as mappings with role and content, got {type(message).__name__}"
            )
