"""An engine without a model: it says what it is told to, and remembers what it was asked."""

from __future__ import annotations

import dataclasses
import threading
import time
from collections.abc import Iterator
from itertools import islice

from memdecay.classifier.messages import content_text
from memdecay.serving.engine.events import (
    Delta,
    Divergence,
    Event,
    Failed,
    Finished,
    FinishReason,
    Listener,
    MemoryReport,
    Started,
    Timings,
    Usage,
)
from memdecay.serving.engine.request import ErrorKind, GenerationRequest, RequestRefusedError
from memdecay.serving.engine.views import (
    EngineStats,
    ForgottenSpan,
    SessionSnapshot,
    SessionView,
    TierUse,
)

KEPT = {"system_instruction": 10, "key_decision": 4, "tool_summary": 6, "recent_dialogue": 20}
EVICTED = {"ordinary_context": 60}
PRECISION = {"full": 25, "4": 15}


class FakeHandle:
    """A handle whose events go to a listener."""

    def __init__(self, engine: FakeEngine, request_id: str) -> None:
        self._engine = engine
        self.request_id = request_id

    def __iter__(self) -> Iterator[Event]:
        return iter(())

    def cancel(self) -> None:
        self._engine.cancel(self.request_id)


@dataclasses.dataclass
class FakeEngine:
    """See the module.

    Attributes:
        answer: What it says where no output is forced; one token a word.
        refusal: Raised at submit.
        failure: Sent in place of the first event, or behind ``fails_after`` deltas.
        gate: Deltas behind the first wait for it.
        divergence: Reported with each request.
    """

    answer: str = "Hello there, friend."
    refusal: RequestRefusedError | None = None
    failure: Failed | None = None
    fails_after: int | None = None
    gate: threading.Event | None = None
    before_start: threading.Event | None = None
    divergence: Divergence | None = None
    model_name: str = "fake"
    max_context: int = 4096
    is_started: bool = False
    is_stopping: bool = False
    requests: list[GenerationRequest] = dataclasses.field(default_factory=list)
    cancelled: dict[str, threading.Event] = dataclasses.field(default_factory=dict)
    ended: list[str] = dataclasses.field(default_factory=list)
    held: dict[tuple[str, str], SessionView] = dataclasses.field(default_factory=dict)

    @property
    def is_working(self) -> bool:
        return not self.is_stopping

    def start(self) -> None:
        self.is_started = True

    def stop(self, *, timeout_s: float | None = None) -> None:
        self.is_stopping = True
        deadline = time.monotonic() + (60 if timeout_s is None else timeout_s)
        while self.num_running and time.monotonic() < deadline:
            time.sleep(0.005)
        for request in self.requests:
            self.cancel(request.request_id)
        while self.num_running:
            time.sleep(0.005)

    @property
    def num_running(self) -> int:
        return len(self.requests) - len(self.ended)

    def submit(self, request: GenerationRequest, listener: Listener | None = None) -> FakeHandle:
        if self.is_stopping:
            raise RequestRefusedError(ErrorKind.SHUTTING_DOWN, "the server stops")
        if self.refusal is not None:
            raise self.refusal
        assert listener is not None
        self.cancelled[request.request_id] = threading.Event()
        self.requests.append(request)
        threading.Thread(target=self._run, args=(request, listener), daemon=True).start()
        return FakeHandle(self, request.request_id)

    def cancel(self, request_id: str) -> bool:
        cancelled = self.cancelled.get(request_id)
        if cancelled is None or request_id in self.ended:
            return False
        cancelled.set()
        return True

    def tokenize(self, request: GenerationRequest) -> tuple[int, ...]:
        if self.refusal is not None:
            raise self.refusal
        return tuple(range(self._num_prompt_tokens(request)))

    def sessions(self, tenant: str) -> tuple[SessionView, ...]:
        views = (view for (owner, _), view in self.held.items() if owner == tenant)
        return tuple(dataclasses.replace(view, forgotten=()) for view in views)

    def session(self, tenant: str, session_id: str, *, explain: bool = False) -> SessionView | None:
        view = self.held.get((tenant, session_id))
        if view is None or explain:
            return view
        return dataclasses.replace(view, forgotten=())

    def delete_session(self, tenant: str, session_id: str) -> bool:
        return self.held.pop((tenant, session_id), None) is not None

    def stats(self) -> EngineStats:
        device = TierUse(num_sessions=len(self.held), used_bytes=256, limit_bytes=1024)
        return EngineStats(
            num_running=self.num_running,
            num_waiting=0,
            tiers={"device": device, "cpu": TierUse(0, 0, 4096), "disk": TierUse(0, 0, None)},
            reserved_bytes=512,
            occupied_bytes=128,
            region_tokens=KEPT,
            prefix_cache=TierUse(1, 64, 512),
            evicted_tokens_total=EVICTED,
            prompt_tokens_total=100,
            cached_tokens_total=40,
            prefix_queries_total=100,
            prefix_hits_total=25,
            generated_tokens_total=30,
            finished_total={"stop": len(self.ended)},
            failed_total={},
            offloaded_total={"cpu": 1},
            restored_total={"cpu": 1},
            recomputed_total=0,
        )

    def _run(self, request: GenerationRequest, listener: Listener) -> None:
        start = time.perf_counter()
        for event in self._events(request, start):
            if isinstance(event, Finished | Failed):
                # Known to have ended before anybody hears of it.
                self.ended.append(request.request_id)
            listener(event)

    def _events(self, request: GenerationRequest, start: float) -> Iterator[Event]:
        is_cancelled = self.cancelled[request.request_id]
        session_id = request.session_id or f"auto-{len(self.requests):x}"
        if self.before_start is not None:
            _wait(self.before_start, is_cancelled)
        if self.failure is not None and self.fails_after is None:
            yield self.failure
            return
        num_prompt = self._num_prompt_tokens(request)
        yield Started(session_id, num_prompt, 2, "session", "device", self.divergence)
        words = self._words(request)
        limit = request.max_tokens or len(words) + 1
        said: list[str] = []
        reason: FinishReason = "stop" if len(words) < limit else "length"
        for index, word in enumerate(islice(words, limit)):
            if index == self.fails_after and self.failure is not None:
                yield self.failure
                return
            if self.gate is not None and index:
                _wait(self.gate, is_cancelled)
            if is_cancelled.is_set():
                reason = "cancelled"
                break
            said.append(word)
            yield Delta(word, (index,))
        yield self._finished(request, session_id, said, reason, num_prompt, start)

    def _finished(
        self,
        request: GenerationRequest,
        session_id: str,
        said: list[str],
        reason: FinishReason,
        num_prompt: int,
        start: float,
    ) -> Finished:
        memory = MemoryReport(
            session_id, 100, 40, KEPT, EVICTED, EVICTED, 640, ("read anew",), PRECISION
        )
        self.held[request.tenant, session_id] = fake_view(session_id)
        seconds = time.perf_counter() - start
        return Finished(
            finish_reason=reason,
            text="".join(said),
            token_ids=tuple(range(len(said))),
            usage=Usage(num_prompt, 2, len(said) + (reason == "stop")),
            memory=memory,
            timings=Timings(0.0, seconds, seconds),
            divergence=self.divergence,
        )

    def _words(self, request: GenerationRequest) -> list[str]:
        forced = request.forced_output
        text = forced if isinstance(forced, str) else self.answer
        for stop in request.stop:
            text = text.partition(stop)[0]
        words = text.split(" ")
        return [word + " " for word in words[:-1]] + ([words[-1]] if words[-1] else [])

    def _num_prompt_tokens(self, request: GenerationRequest) -> int:
        if request.prompt is not None:
            return len(request.prompt)
        return sum(len(content_text(message.get("content"))) for message in request.messages)


def fake_view(session_id: str, **fields: object) -> SessionView:
    """Return a session that has evicted something."""
    history = tuple(
        SessionSnapshot(seen, kept, {name: count * kept // 40 for name, count in KEPT.items()}, 640)
        for seen, kept in ((20, 20), (50, 40), (80, 38))
    )
    view = SessionView(
        session_id=session_id,
        is_named=not session_id.startswith("auto-"),
        tier="device",
        is_running=False,
        num_turns=1,
        tokens_seen=100,
        tokens_kept=40,
        kept_per_region=KEPT,
        evicted_per_region=EVICTED,
        kv_bytes=640,
        idle_s=1.5,
        expires_in_s=None,
        history=history,
        forgotten=(ForgottenSpan(4, 64, 1, "tool", "a long listing"),),
        kept_per_precision=PRECISION,
    )
    return dataclasses.replace(view, **fields)  # type: ignore[arg-type]


def _wait(gate: threading.Event, is_cancelled: threading.Event) -> None:
    while not gate.wait(0.005) and not is_cancelled.is_set():
        pass
