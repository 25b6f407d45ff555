"""The engine in a thread of its own."""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from typing import TypeVar

from memdecay.classifier.llm import LanguageModel
from memdecay.serving.engine.config import EngineConfig
from memdecay.serving.engine.core import EngineCore
from memdecay.serving.engine.events import Event, Failed, Finished, Listener
from memdecay.serving.engine.figures import engine_stats
from memdecay.serving.engine.model.tagging import ServedTagger
from memdecay.serving.engine.request import ErrorKind, GenerationRequest, RequestRefusedError
from memdecay.serving.engine.sessions.look import forgotten_spans, view_session
from memdecay.serving.engine.views import EngineStats, SessionView

logger = logging.getLogger(__name__)

_T = TypeVar("_T")
_IDLE_S = 1.0
_NOT_RUNNING = "the engine is not running; start it, or wait until the server is up again"


@dataclass(frozen=True, slots=True)
class Handle:
    """A request that was taken in, see `RequestHandle`.

    Attributes:
        request_id: The request's name.
        events: Its events; None if a listener gets them.
        engine: Where it runs.
    """

    request_id: str
    events: queue.SimpleQueue[Event] | None
    engine: Engine

    def __iter__(self) -> Iterator[Event]:
        """Yield the events, waiting for each; ends behind the last."""
        while self.events is not None:
            event = self.events.get()
            yield event
            if isinstance(event, Finished | Failed):
                return

    def cancel(self) -> None:
        """End the request at the next step."""
        self.engine.cancel(self.request_id)


class Engine:
    """A `ServingEngine`: the core works in one thread, and others hand it calls between steps.

    Args:
        llm: The language model; nobody else may run it while the engine does.
        config: The settings.
        tagger: The classifier, or rules; None leaves every token ordinary context.
        clock: Returns the time in seconds.

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
        tagger: ServedTagger | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._llm = llm
        self._config = config
        self._clock = clock
        self._core = EngineCore(llm, config, tagger, clock)
        self._calls: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._gate = threading.Lock()
        self._refused: Counter[str] = Counter()
        self._thread: threading.Thread | None = None
        self._is_open = False
        self._is_ending = threading.Event()

    @property
    def model_name(self) -> str:
        """Name of the language model."""
        return self._llm.name

    @property
    def max_context(self) -> int:
        """Most tokens that one conversation may have seen."""
        return self._llm.max_context

    @property
    def most_kv_bytes(self) -> int:
        """Bytes that the caches of all sessions on the device take at most."""
        return self._core.parts.most_kv_bytes

    @property
    def is_working(self) -> bool:
        """Whether requests can be taken in."""
        return self._is_open and not self._is_ending.is_set()

    def start(self) -> None:
        """Read the shared prompts and begin to work.

        Raises:
            RuntimeError: It was started before.
        """
        with self._gate:
            if self._thread is not None:
                raise RuntimeError("an engine can be started once; make a new one")
            self._thread = threading.Thread(target=self._work, name="memdecay-engine", daemon=True)
            self._is_open = True
        self._thread.start()

    def stop(self, *, timeout_s: float | None = None) -> None:
        """Refuse new requests, finish the running ones, save the sessions and end.

        Args:
            timeout_s: Seconds after which those that still run are cancelled; None waits.
        """
        thread = self._thread
        if thread is None or not thread.is_alive():
            return
        with suppress(RequestRefusedError):
            self._call(self._begin_to_end)
        thread.join(timeout_s)
        if thread.is_alive():
            with suppress(RequestRefusedError):
                self._call(self._cancel_all)
            thread.join()

    def submit(self, request: GenerationRequest, listener: Listener | None = None) -> Handle:
        """Take a request in; see `ServingEngine.submit`.

        Raises:
            RequestRefusedError: It can't run.
        """
        events: queue.SimpleQueue[Event] = queue.SimpleQueue()
        try:
            self._submit(request, listener or events.put)
        except RequestRefusedError as error:
            with self._gate:
                self._refused[error.kind] += 1
            raise
        return Handle(request.request_id, events if listener is None else None, self)

    def cancel(self, request_id: str) -> bool:
        """End a request at the next step; return whether it was waiting or running."""
        try:
            return self._call(lambda: self._core.cancel(request_id))
        except RequestRefusedError:
            return False

    def tokenize(self, request: GenerationRequest) -> tuple[int, ...]:
        """Return the token ids that a request's prompt has.

        Raises:
            RequestRefusedError: The request can't be rendered, or is far too long.
        """
        return self._core.intake.count(request)

    def sessions(self, tenant: str) -> tuple[SessionView, ...]:
        """Return a tenant's sessions, the last used first."""
        return self._call(
            lambda: tuple(
                view_session(session, self._clock(), self._config.session_ttl_s, ())
                for session in self._core.parts.store.of(tenant)
            )
        )

    def session(self, tenant: str, session_id: str, *, explain: bool = False) -> SessionView | None:
        """Return one session; None if the tenant has no such."""

        def look() -> SessionView | None:
            session = self._core.parts.store.get(tenant, session_id)
            if session is None:
                return None
            folder = self._core.parts.folder
            forgotten = forgotten_spans(session, self._llm.tokenizer, folder) if explain else ()
            return view_session(session, self._clock(), self._config.session_ttl_s, forgotten)

        return self._call(look)

    def delete_session(self, tenant: str, session_id: str) -> bool:
        """Cancel its request, free its memory in every tier; return whether there was one."""

        def delete() -> bool:
            session = self._core.parts.store.get(tenant, session_id)
            if session is not None:
                self._core.delete(session)
            return session is not None

        return self._call(delete)

    def stats(self) -> EngineStats:
        """Return figures for a metrics page."""
        with self._gate:
            refused = Counter(self._refused)
        return self._call(lambda: engine_stats(self._core, refused))

    def _submit(self, request: GenerationRequest, listener: Listener) -> None:
        turn = self._core.prepare(request, listener)

        def enqueue() -> None:
            if self._is_ending.is_set():
                raise RequestRefusedError(ErrorKind.SHUTTING_DOWN, "the server is shutting down")
            self._core.enqueue(turn)

        self._call(enqueue)

    def _call(self, function: Callable[[], _T]) -> _T:
        """Let the engine's thread run a function between two steps, and wait for its result."""
        future: Future[_T] = Future()

        def run() -> None:
            try:
                future.set_result(function())
            except BaseException as error:  # noqa: BLE001  It belongs to the caller.
                future.set_exception(error)

        with self._gate:
            if not self._is_open:
                raise RequestRefusedError(ErrorKind.SHUTTING_DOWN, _NOT_RUNNING)
            self._calls.put(run)
        return future.result()

    def _work(self) -> None:
        try:
            with self._core.attached():
                self._core.warm_up()
                is_busy = False
                while not (self._is_ending.is_set() and self._core.is_idle):
                    self._run_calls(0.0 if is_busy else _IDLE_S)
                    is_busy = self._step()
        except Exception:
            logger.exception("the engine has failed and ends")
            raise
        finally:
            self._close()

    def _step(self) -> bool:
        try:
            return self._core.step()
        except Exception:  # The next requests may do better; who waits must not wait for ever.
            logger.exception("a step has failed, and with it all requests")
            self._core.fail_all()
            return False

    def _run_calls(self, wait_s: float) -> None:
        """Run the calls that have come in; wait for the first one so long."""
        with suppress(queue.Empty):
            self._calls.get(timeout=wait_s)() if wait_s else self._calls.get_nowait()()
            while True:
                self._calls.get_nowait()()

    def _close(self) -> None:
        self._is_ending.set()
        try:
            self._core.close()
        finally:
            with self._gate:
                self._is_open = False
            self._run_calls(0.0)

    def _begin_to_end(self) -> None:
        self._is_ending.set()
        self._core.refuse_waiting(ErrorKind.SHUTTING_DOWN, "the server is shutting down")

    def _cancel_all(self) -> None:
        for turn in self._core.running:
            turn.is_cancelled = True
