"""The engine in its thread, as the server uses it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from memdecay.classifier.llm import LanguageModel
from memdecay.runtime.tagger import RegionTagger
from memdecay.serving.engine.async_events import request_events
from memdecay.serving.engine.config import EngineConfig
from memdecay.serving.engine.engine import Engine
from memdecay.serving.engine.events import Delta, Event, Finished, Started
from memdecay.serving.engine.interface import ServingEngine
from memdecay.serving.engine.request import ErrorKind, GenerationRequest, RequestRefusedError
from tests.serving.engine.rig import cache_config, long_conversation, user


def request(text: str = "Hi", tenant: str = "ann", **options: Any) -> GenerationRequest:
    messages = options.pop("messages", (user(text),))
    return GenerationRequest(tenant=tenant, messages=messages, **({"max_tokens": 6} | options))


@pytest.fixture
def engine(llm: LanguageModel, tagger: RegionTagger) -> Iterator[Engine]:
    cache = cache_config(policy="region")
    engine = Engine(llm, EngineConfig(cache=cache, chunk_tokens=32), tagger)
    engine.start()
    yield engine
    engine.stop()


def test_the_engine_is_what_the_server_expects(engine: Engine) -> None:
    served: ServingEngine = engine
    assert (served.model_name, served.max_context) == ("tiny", 4096)


def test_a_handle_yields_all_events(engine: Engine) -> None:
    events = list(engine.submit(request()))
    assert isinstance(events[0], Started)
    assert isinstance(events[-1], Finished)
    text = "".join(event.text for event in events if isinstance(event, Delta))
    assert text == events[-1].text
    assert events[-1].timings.total_s >= (events[-1].timings.first_token_s or 0) > 0


def test_sixteen_threads_get_their_own_answers(engine: Engine) -> None:
    answers: dict[int, Finished] = {}

    def ask(index: int) -> None:
        *_, last = engine.submit(request(f"I am number {index}", session_id=f"s{index}"))
        assert isinstance(last, Finished)
        answers[index] = last

    threads = [threading.Thread(target=ask, args=(index,)) for index in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for index, answer in answers.items():
        *_, alone = engine.submit(request(f"I am number {index}", tenant="ben"))
        assert isinstance(alone, Finished)
        assert alone.token_ids == answer.token_ids
    assert len(answers) == 16


def test_events_can_be_awaited(engine: Engine) -> None:
    async def ask() -> list[Event]:
        async with request_events(engine, request()) as events:
            return [event async for event in events]

    events = asyncio.run(ask())
    assert isinstance(events[-1], Finished)


def test_leaving_early_cancels(engine: Engine) -> None:
    async def leave() -> None:
        async with request_events(engine, request(max_tokens=2000)) as events:
            async for event in events:
                if isinstance(event, Delta):
                    return

    asyncio.run(leave())
    while engine.stats().num_running:
        pass
    assert engine.stats().finished_total == {"cancelled": 1}


def test_refusals_reach_the_one_who_asks_and_are_counted(engine: Engine) -> None:
    async def ask() -> None:
        async with request_events(engine, request("x " * 200)):
            pass

    with pytest.raises(RequestRefusedError, match="newest user message"):
        asyncio.run(ask())
    assert engine.stats().failed_total == {"too_long": 1}


def test_figures_follow_what_happens(engine: Engine) -> None:
    messages = long_conversation("Ann")
    *_, last = engine.submit(request(messages=messages, session_id="s", max_tokens=20))
    assert isinstance(last, Finished)
    stats = engine.stats()
    assert stats.prompt_tokens_total == last.usage.num_prompt_tokens
    assert stats.generated_tokens_total == last.usage.num_completion_tokens
    assert stats.evicted_tokens_total == last.memory.evicted_per_region
    assert stats.region_tokens == last.memory.kept_per_region
    assert stats.tiers["device"].num_sessions == 1
    assert stats.tiers["device"].used_bytes == last.memory.kv_bytes
    assert stats.reserved_bytes >= stats.tiers["device"].used_bytes >= stats.occupied_bytes > 0
    # The most that 64 sessions take, where no bytes are set.
    assert stats.tiers["device"].limit_bytes == engine.most_kv_bytes == 64 * stats.reserved_bytes
    assert stats.watermark_level == 1 / 64
    assert stats.finished_total == {"length": 1}


def test_sessions_can_be_looked_at_and_deleted(engine: Engine) -> None:
    messages = long_conversation("Ann")
    *_, last = engine.submit(request(messages=messages, session_id="s"))
    assert isinstance(last, Finished)
    view = engine.session("ann", "s", explain=True)
    assert view is not None
    assert (view.tier, view.num_turns, view.is_running) == ("device", 1, False)
    assert view.tokens_seen == last.memory.tokens_seen
    assert view.kept_per_region == last.memory.kept_per_region
    num_gone = sum(span.stop - span.start for span in view.forgotten)
    assert num_gone == view.tokens_seen - view.tokens_kept > 0
    assert {span.role for span in view.forgotten} <= {"system", "user", "assistant"}
    assert all(span.text for span in view.forgotten)
    assert view.history[-1].tokens_seen == view.tokens_seen
    assert [one.session_id for one in engine.sessions("ann")] == ["s"]
    assert engine.session("ben", "s") is None
    assert not engine.delete_session("ben", "s")
    assert engine.delete_session("ann", "s")
    assert engine.session("ann", "s") is None
    assert engine.stats().tiers["device"].used_bytes == 0


def test_prompts_can_be_tokenized(engine: Engine) -> None:
    ids = engine.tokenize(request("Hello"))
    *_, last = engine.submit(request("Hello"))
    assert isinstance(last, Finished)
    assert len(ids) == last.usage.num_prompt_tokens


def test_stopping_finishes_what_runs_and_refuses_what_waits(llm: LanguageModel) -> None:
    engine = Engine(llm, EngineConfig(cache=cache_config(), max_running=1))
    engine.start()
    running = engine.submit(request(max_tokens=100))
    waiting = engine.submit(request(max_tokens=40))
    engine.stop()
    *_, last = running
    assert isinstance(last, Finished)
    assert last.finish_reason == "length"
    (refused,) = waiting
    assert refused.kind is ErrorKind.SHUTTING_DOWN  # type: ignore[union-attr]
    with pytest.raises(RequestRefusedError, match="is not running"):
        engine.submit(request())
    assert not engine.cancel("x")
    engine.stop()
    with pytest.raises(RuntimeError, match="started once"):
        engine.start()


def test_stopping_cancels_what_takes_too_long(llm: LanguageModel) -> None:
    engine = Engine(llm, EngineConfig(cache=cache_config()))
    engine.start()
    handle = engine.submit(request(max_tokens=3000))
    engine.stop(timeout_s=0.05)
    *_, last = handle
    assert isinstance(last, Finished)
    assert last.finish_reason == "cancelled"


def test_a_handle_cancels(engine: Engine) -> None:
    handle = engine.submit(request(max_tokens=3000))
    handle.cancel()
    *_, last = handle
    assert not isinstance(last, Finished) or last.finish_reason == "cancelled"


def test_memory_is_back_at_its_baseline_after_all_sessions_are_gone(engine: Engine) -> None:
    for index in range(20):
        list(engine.submit(request(session_id=f"s{index}")))
    for index in range(20):
        engine.delete_session("ann", f"s{index}")
    stats = engine.stats()
    assert stats.reserved_bytes == stats.occupied_bytes == 0
    assert all(use.num_sessions == 0 for use in stats.tiers.values())
