"""The engine without threads: requests are taken in, and each `step` goes a little further."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from torch import Tensor

from memdecay.classifier.decoder import find_decoder
from memdecay.classifier.llm import LanguageModel
from memdecay.runtime.rehearsal import rehearse_fading
from memdecay.runtime.transcript import TokenTable
from memdecay.serving.engine.config import EngineConfig
from memdecay.serving.engine.counters import Counters
from memdecay.serving.engine.events import FinishReason, Listener
from memdecay.serving.engine.intake import Intake
from memdecay.serving.engine.model.runner import Row
from memdecay.serving.engine.model.tagging import ServedTagger
from memdecay.serving.engine.parts import make_parts
from memdecay.serving.engine.request import ErrorKind, GenerationRequest
from memdecay.serving.engine.sessions.expiry import superfluous
from memdecay.serving.engine.sessions.record import load_stored
from memdecay.serving.engine.sessions.session import ServedSession
from memdecay.serving.engine.turns.queue import WaitingQueue
from memdecay.serving.engine.turns.settle import settle
from memdecay.serving.engine.turns.turn import Turn
from memdecay.serving.engine.warm_up import PrefixKeeper

logger = logging.getLogger(__name__)

_DECODED_TOKENS_PER_SNAPSHOT = 32
_FAILED = "the server failed on this request; its session is read again next time"


class EngineCore:
    """Sessions, queues and the model's forwards, to be used from one thread.

    Only `prepare` may be called from others at the same time. `step` and `warm_up` need the hooks
    of `attached`.

    Args:
        llm: The language model.
        config: The settings.
        tagger: The classifier, or rules; None leaves every token ordinary context.
        clock: Returns the time in seconds; files on disk are dated by it as well.

    Raises:
        TypeError: The tagger is none whose tags can be saved.
        ArtifactError: The classifier was trained on another language model.
        ModelError: The model has layers that the cache does not know.
        ConfigError: The policy is unknown or lacks its foresight head, or the KV memory holds not
            one session.
        StorageError: The folder of sessions can't be made, or another server uses it.
    """

    def __init__(
        self,
        llm: LanguageModel,
        config: EngineConfig,
        tagger: ServedTagger | None,
        clock: Callable[[], float],
    ) -> None:
        self.parts = make_parts(llm, config, tagger, clock)
        # It takes a second or more, which else the first session to fade would wait, and all others
        # with it.
        rehearse_fading(find_decoder(llm.model), self.parts.template)
        self.counters = Counters()
        self.waiting = WaitingQueue(config.max_waiting)
        self.reading: deque[Turn] = deque()
        self.answering: list[Turn] = []
        self._clock = clock
        self._prefixes = PrefixKeeper(self.parts)
        self.intake = Intake(self.parts, clock)
        # A request that waits can begin only after something has come in or ended.
        self._may_admit = False
        if self.parts.folder is not None:
            load_stored(self.parts.folder, self.parts.store)

    @contextmanager
    def attached(self) -> Iterator[None]:
        """Keep the hooks on the model until the block ends."""
        with self.parts.runner.attached():
            yield

    def warm_up(self) -> None:
        """Read the prompts of the configuration into the prefix cache."""
        self._prefixes.warm_up()

    @property
    def running(self) -> list[Turn]:
        """The requests that have begun."""
        return [*self.reading, *self.answering]

    @property
    def is_idle(self) -> bool:
        """Whether no request is waiting or running."""
        return not (self.waiting or self.reading or self.answering)

    # Taking requests in

    def prepare(self, request: GenerationRequest, listener: Listener) -> Turn:
        """Render and tokenize a request and check that it can be served.

        Raises:
            RequestRefusedError: It can't.
        """
        return self.intake.prepare(request, listener)

    def enqueue(self, turn: Turn) -> None:
        """Let a prepared request wait for its beginning.

        Raises:
            RequestRefusedError: The queue is full, or its session has too many requests.
        """
        self.waiting.add(turn)
        self._may_admit = True

    def cancel(self, request_id: str) -> bool:
        """End a request at the next step; return whether it was waiting or running."""
        found = [
            turn for turn in (*self.waiting, *self.running) if turn.request.request_id == request_id
        ]
        for turn in found:
            turn.is_cancelled = True
        return bool(found)

    def delete(self, session: ServedSession) -> None:
        """Cancel a session's request and forget the session in every tier."""
        for turn in self.running:
            if turn.session is session:
                self._finish(turn, "cancelled")
        self._forget(session)

    # Going on

    def step(self) -> bool:
        """Admit, read a little, and choose one more token of every answer.

        Returns:
            Whether there was anything to do.
        """
        if self.is_idle:
            self.expire()
            return False
        self._end_cancelled()
        self._admit()
        self._read()
        self._answer()
        return True

    def expire(self) -> None:
        """Delete sessions that nobody has used for too long, and those beyond the limit."""
        for session in superfluous(self.parts.store, self.parts.config, self._clock()):
            self._forget(session)

    def close(self) -> None:
        """End every request that is left, and write the sessions to disk if there is one."""
        self.refuse_waiting(ErrorKind.SHUTTING_DOWN, "the server has ended")
        for turn in self.running:
            self._finish(turn, "cancelled")
        self.parts.tiers.save_all()
        if self.parts.folder is not None:
            self.parts.folder.close()

    def refuse_waiting(self, kind: ErrorKind, message: str) -> None:
        """End all requests that have not begun."""
        for turn in self.waiting:
            self.waiting.remove(turn)
            self._fail_waiting(turn, kind, message)

    def fail_all(self) -> None:
        """End every request after a fault of ours that belongs to none of them."""
        self.refuse_waiting(ErrorKind.INTERNAL, _FAILED)
        for turn in self.running:
            self._fail(turn)

    def _admit(self) -> None:
        if not self._may_admit:
            return
        self._may_admit = False
        self.expire()
        for turn in self.waiting:
            if len(self.running) >= self.parts.config.max_running:
                return
            found = self.parts.store.find(turn.request, turn.prompt)
            if found is not None and found.is_running:
                continue
            if not self._try_to_begin(turn, found):
                return  # Else small requests could keep a large one waiting for ever.
            self.waiting.remove(turn)

    def _try_to_begin(self, turn: Turn, found: ServedSession | None) -> bool:
        store, tiers = self.parts.store, self.parts.tiers
        session = found or store.create(turn.request, self._clock())
        needed = self.parts.reserve_bytes(len(turn.prompt.tokens) + turn.max_tokens)
        was_known = bool(len(session.transcript.tokens))
        try:
            if not tiers.claim(session, needed):
                if found is None:
                    store.remove(session)
                return False
            beginning = self.parts.beginner.begin(turn, session)
        except Exception:  # No memory on the device, for example: the other requests go on.
            logger.exception("a session could not be brought to the device")
            self._forget(session)
            self._fail_waiting(turn, ErrorKind.INTERNAL, _FAILED)
            return True
        session.is_running = True
        self.counters.prompt_tokens += beginning.num_prompt_tokens
        self.counters.cached_tokens += beginning.num_cached_tokens
        if beginning.origin != "session" and was_known:
            self.counters.recomputed += 1
        turn.begin(beginning, self._clock())
        self.reading.append(turn)
        return True

    def _read(self) -> None:
        """Read whole chunks, one of each request in turn, within the step's share.

        Chunks never depend on what else is running: they decide what is evicted when.
        """
        left = self.parts.config.prefill_tokens_per_step
        is_first = True
        while self.reading:
            turn = self.reading[0]
            tokens = turn.unread()
            start = len(turn.session.transcript.tokens) - len(tokens)
            chunk = tokens.part(0, self.parts.stops.next_stop(turn.prompt, start) - start)
            if not is_first and len(chunk) > left:
                return
            is_first, left = False, left - len(chunk)
            logits = self._run([turn], [chunk])
            if logits is None:
                continue
            self._prefixes.keep(turn)
            turn.session.take_snapshot()
            self.reading.popleft()
            if len(chunk) < len(tokens):
                self.reading.append(turn)
            elif self._choose(turn, logits[0]):
                self.answering.append(turn)

    def _answer(self) -> None:
        turns = list(self.answering)
        if not turns:
            return
        for turn in turns:
            turn.tell_tagger(is_finished=False)
        logits = self._run(turns, [turn.newest() for turn in turns])
        if logits is None:
            return
        for turn, row in zip(turns, logits, strict=True):
            self._choose(turn, row)

    def _run(self, turns: Sequence[Turn], tokens: Sequence[TokenTable]) -> Tensor | None:
        """Run a forward; where it fails, its requests fail and their sessions are given up."""
        rows = []
        for turn, part in zip(turns, tokens, strict=True):
            memory = turn.session.memory
            assert memory is not None, "a running session is on the device"
            rows.append(Row(memory, part, turn.pinned_among(memory.num_tokens, len(part))))
        try:
            return self.parts.runner.run(rows)
        except Exception:  # Whatever it was, the other requests go on.
            logger.exception("a forward of %d requests failed", len(turns))
            for turn in turns:
                self._fail(turn)
            return None

    def _choose(self, turn: Turn, logits: Tensor) -> bool:
        """Choose a token; return whether another one is to follow, which none does on a failure."""
        try:
            return self._choose_next(turn, logits)
        except Exception:  # Logits that are no numbers, for example: the other requests go on.
            logger.exception("no token could be chosen")
            self._fail(turn)
            return False

    def _choose_next(self, turn: Turn, logits: Tensor) -> bool:
        token_id = turn.choose(logits)
        if token_id is None or token_id in self.parts.stop_ids:
            self._finish(turn, "stop", num_stop=int(token_id is not None))
            return False
        turn.say(token_id, self._clock())
        if len(turn.answer) % _DECODED_TOKENS_PER_SNAPSHOT == 0:
            turn.session.take_snapshot()
        if turn.answer.is_stopped:
            self._finish(turn, "stop")
        elif len(turn.answer) >= turn.max_tokens:
            self._finish(turn, "length")
        else:
            return True
        return False

    # Ending

    def _finish(self, turn: Turn, reason: FinishReason, *, num_stop: int = 0) -> None:
        """End a request: its session keeps the answer and becomes idle."""
        session = turn.session
        turn.flush()
        report = settle(turn, self.parts.store, self._clock())
        self.counters.evicted.update(report.newly_evicted_per_region)
        turn.finish(reason, report, num_stop=num_stop, now=self._clock())
        self.counters.finished[reason] += 1
        self.counters.generated_tokens += len(turn.answer) + num_stop
        self._release(turn)
        if reason == "cancelled" and not len(turn.answer) and not session.is_named:
            self._forget(session)

    def _fail(self, turn: Turn) -> None:
        """End a request whose forward failed: its session's memory may be half written."""
        self._count_failure(turn, ErrorKind.INTERNAL)
        turn.fail(ErrorKind.INTERNAL, _FAILED)
        self._release(turn)
        self._forget(turn.session)

    def _release(self, turn: Turn) -> None:
        turn.session.is_running = False
        turn.session.last_used_at = self._clock()
        if turn in self.reading:
            self.reading.remove(turn)
        if turn in self.answering:
            self.answering.remove(turn)
        self._may_admit = True

    def _end_cancelled(self) -> None:
        for turn in [turn for turn in self.waiting if turn.is_cancelled]:
            self.waiting.remove(turn)
            self._fail_waiting(turn, ErrorKind.CANCELLED, "the request was cancelled in the queue")
        for turn in [turn for turn in self.running if turn.is_cancelled]:
            self._finish(turn, "cancelled")

    def _fail_waiting(self, turn: Turn, kind: ErrorKind, message: str) -> None:
        self._count_failure(turn, kind)
        turn.fail(kind, message)

    def _count_failure(self, turn: Turn, kind: ErrorKind) -> None:
        self.counters.failed[kind] += 1
        level = logging.ERROR if kind is ErrorKind.INTERNAL else logging.INFO
        request = turn.request
        extra = {"request_id": request.request_id, "tenant": request.tenant, "kind": str(kind)}
        logger.log(level, "a request ended without an answer", extra=extra)

    def _forget(self, session: ServedSession) -> None:
        self.parts.tiers.discard(session)
        self.parts.store.remove(session)
        self._may_admit = True
