"""Who goes when: fairness, limits, cancellation, failures."""

from __future__ import annotations

from typing import Any
from unittest.mock import ANY

import pytest

from memdecay.classifier.llm import LanguageModel
from memdecay.serving.engine.config import EngineConfig
from memdecay.serving.engine.engine import Engine
from memdecay.serving.engine.events import Failed, Finished
from memdecay.serving.engine.request import ErrorKind, GenerationRequest, RequestRefusedError
from memdecay.serving.engine.sessions.tiers import Tiers
from memdecay.serving.engine.warm_up import PrefixKeeper
from tests.serving.engine.rig import Rig, Run, cache_config, long_conversation, rig, user


def asks(messages: tuple[dict[str, str], ...]) -> GenerationRequest:
    return GenerationRequest(tenant="ann", messages=messages)


def count_forwards(engine: Rig) -> list[tuple[int, int]]:
    """Note the rows and the tokens a row of every forward."""
    forwards: list[tuple[int, int]] = []
    run = engine.core.parts.runner.run

    def counted(rows: Any) -> Any:
        forwards.append((len(rows), len(rows[0].tokens)))
        return run(rows)

    engine.core.parts.runner.run = counted  # type: ignore[method-assign]
    return forwards


def test_long_prompts_do_not_hold_up_running_answers(llm: LanguageModel) -> None:
    with rig(llm, cache=cache_config(256)) as engine:
        quick = engine.submit((user("Hi"),), max_tokens=40)
        engine.core.step()
        forwards = count_forwards(engine)
        slow = engine.submit(long_conversation("Ann", 12))
        while not slow.deltas:
            engine.core.step()
        num_read = [tokens for rows, tokens in forwards if tokens > 1]
        assert len(num_read) > 5
        # A step's share of reading, then a token of the running answer, and so on.
        num_between = 0
        for _, tokens in forwards:
            num_between = num_between + tokens if tokens > 1 else 0
            assert num_between <= engine.core.parts.config.prefill_tokens_per_step
        engine.finish(quick, slow)


def test_readers_take_turns(llm: LanguageModel) -> None:
    with rig(llm, cache=cache_config(256)) as engine:
        slow = engine.submit(long_conversation("Ann", 12))
        engine.core.step()
        quick = engine.submit((user("Hi"),))
        for _ in range(6):
            engine.core.step()
        assert quick.deltas
        assert not slow.deltas
        engine.finish(quick, slow)


def test_all_answers_take_one_forward(llm: LanguageModel) -> None:
    with rig(llm) as engine:
        runs = [engine.submit((user(f"Hi {i}"),), max_tokens=30) for i in range(5)]
        while not all(run.deltas for run in runs):
            engine.core.step()
        forwards = count_forwards(engine)
        engine.core.step()
        assert forwards == [(5, 1)]
        engine.finish(*runs)


def test_no_more_run_than_may(llm: LanguageModel) -> None:
    with rig(llm, max_running=2, max_waiting=3) as engine:
        runs = [engine.submit((user(f"Hi {i}"),)) for i in range(3)]
        engine.core.step()
        assert (len(engine.core.running), len(engine.core.waiting)) == (2, 1)
        runs += [engine.submit((user(f"Hi {i}"),)) for i in range(2)]
        with pytest.raises(RequestRefusedError, match="3 requests are waiting") as refusal:
            engine.submit((user("Hi"),))
        assert refusal.value.kind is ErrorKind.QUEUE_FULL
        engine.finish(*runs)
        assert all(run.finished.finish_reason == "length" for run in runs)


def test_requests_wait_while_all_places_on_the_device_are_taken(llm: LanguageModel) -> None:
    with rig(llm, max_sessions=1) as engine:
        first = engine.submit((user("Hi"),), max_tokens=10)
        second = engine.submit((user("Ho"),))
        for _ in range(4):
            engine.core.step()
        assert not second.events
        engine.finish(first, second)
        assert second.finished.memory.tokens_seen > 0
        assert engine.session(first).tier == "none"


def test_a_large_request_is_not_passed_by_for_ever(llm: LanguageModel) -> None:
    """Small ones keep coming, and beside one of them another one fits, the large one never."""
    large = long_conversation("Ann", 16)
    cache = cache_config(512, "full")
    with rig(llm, cache=cache) as engine:
        room = 2 * engine.core.parts.reserve_bytes(20)
        num_tokens = len(engine.core.intake.read(asks(large)).tokens)
        assert room / 2 < engine.core.parts.reserve_bytes(num_tokens) <= room
    with rig(llm, cache=cache, kv_memory_bytes=room) as engine:
        small = [engine.submit((user("Hi"),), max_tokens=8)]
        waiting: Run | None = None
        for number in range(12):
            for _ in range(4):
                engine.core.step()
            small.append(engine.submit((user("Hi"),), f"tenant {number}", max_tokens=8))
            waiting = waiting or engine.submit(large, max_tokens=1)
        assert waiting is not None
        assert waiting.has_ended
        engine.finish(*small)


@pytest.mark.parametrize("num_steps", [0, 1, 6])
def test_a_cancelled_request_frees_its_place(llm: LanguageModel, num_steps: int) -> None:
    with rig(llm, cache=cache_config(256)) as engine:
        other = engine.submit((user("Hi"),), max_tokens=40, session_id="other")
        run = engine.submit(long_conversation("Ann", 6), request_id="r", max_tokens=50)
        for _ in range(num_steps):
            engine.core.step()
        assert engine.core.cancel("r")
        engine.core.step()
        assert run.has_ended
        assert not engine.core.cancel("r")
        assert len(engine.core.running) == 1
        if num_steps:
            assert run.finished.finish_reason == "cancelled"
            assert run.finished.text == "".join(delta.text for delta in run.deltas)
        else:
            assert run.failed.kind is ErrorKind.CANCELLED
        engine.finish(other)
        assert len(other.finished.token_ids) == 40
        # What has been written stays, else the session goes.
        assert len(engine.core.parts.store) == 1 + bool(run.deltas)


def test_a_named_session_goes_on_after_a_cancelled_reading(llm: LanguageModel) -> None:
    messages = long_conversation("Ann", 6)
    with rig(llm, cache=cache_config(policy="full")) as engine:
        run = engine.submit(messages, session_id="s", request_id="r")
        engine.core.step()
        engine.core.step()
        engine.core.cancel("r")
        engine.finish(run)
        again = engine.ask(messages, session_id="s")
        assert again.started.num_cached_tokens == 64
        assert again.started.divergence is None
        assert again.finished.token_ids == engine.ask(messages, tenant="ben").finished.token_ids


def test_a_failing_forward_ends_its_requests_alone(
    llm: LanguageModel, caplog: pytest.LogCaptureFixture
) -> None:
    with rig(llm) as engine:
        kept = engine.ask((user("Before"),), session_id="kept")
        run = engine.core.parts.runner.run

        def fail(_: Any) -> Any:
            raise RuntimeError("out of memory")

        engine.core.parts.runner.run = fail  # type: ignore[method-assign]
        broken = engine.submit((user("Hi"),), session_id="broken", request_id="r-1")
        engine.core.step()
        assert broken.failed.kind is ErrorKind.INTERNAL
        assert "out of memory" in caplog.text
        (line,) = (
            record
            for record in caplog.records
            if record.levelname == "ERROR" and getattr(record, "request_id", None) == "r-1"
        )
        assert "without an answer" in line.message
        assert engine.core.is_idle
        assert engine.core.parts.store.get("ann", "broken") is None
        engine.core.parts.runner.run = run  # type: ignore[method-assign]
        again = engine.ask((user("Hi"),), session_id="broken")
        assert isinstance(again.events[-1], Finished)
        assert engine.session(kept).memory is not None


def test_logits_that_are_no_numbers_fail_their_request_alone(
    llm: LanguageModel, caplog: pytest.LogCaptureFixture
) -> None:
    def cross(*_: Any) -> Any:
        raise RuntimeError("probabilities are no numbers")

    with rig(llm) as engine:
        other = engine.submit((user("Other"),))
        broken = engine.submit((user("Hi"),), request_id="broken", session_id="s")
        engine.core.step()
        (turn,) = (one for one in engine.core.running if one.request.request_id == "broken")
        turn.sampler.pick = cross  # type: ignore[method-assign]
        engine.finish(other, broken)
        assert broken.failed.kind is ErrorKind.INTERNAL
        assert other.finished.token_ids == engine.ask((user("Other"),), "ben").finished.token_ids
        assert engine.core.parts.store.get("ann", "s") is None
        assert engine.core.parts.tiers.use()["device"].num_sessions == 2
    assert "no numbers" in caplog.text


@pytest.mark.parametrize("place", ["keep", "claim"])
def test_a_fault_outside_of_forwards_ends_requests_and_not_the_engine(
    llm: LanguageModel, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    def cross(*_: Any) -> Any:
        raise RuntimeError("a fault")

    engine = Engine(llm, EngineConfig(cache=cache_config()))
    engine.start()
    parts = {"keep": (PrefixKeeper, "keep"), "claim": (Tiers, "claim")}
    request = GenerationRequest(tenant="ann", messages=(user("Hi"),), max_tokens=3)
    try:
        with monkeypatch.context() as broken:
            broken.setattr(*parts[place], cross)
            (*_, last) = engine.submit(request)
            assert last == Failed(ErrorKind.INTERNAL, ANY)
        assert engine.is_working
        (*_, last) = engine.submit(request)
        assert isinstance(last, Finished)
    finally:
        engine.stop()
    assert not engine.is_working


def test_deleting_a_session_ends_its_request_and_frees_its_memory(llm: LanguageModel) -> None:
    with rig(llm) as engine:
        run = engine.submit((user("Hi"),), session_id="s", max_tokens=50)
        for _ in range(4):
            engine.core.step()
        engine.core.delete(engine.session(run))
        assert run.finished.finish_reason == "cancelled"
        assert engine.core.is_idle
        assert engine.core.parts.tiers.use()["device"].used_bytes == 0
        assert len(engine.core.parts.store) == 0


def test_unused_sessions_are_deleted_after_a_while(llm: LanguageModel) -> None:
    with rig(llm, session_ttl_s=60.0) as engine:
        for name in ("old", "new"):
            engine.ask((user("Hi"),), session_id=name)
            engine.clock.now += 40
        engine.core.step()
        assert [session.session_id for session in engine.core.parts.store] == ["new"]


def test_no_more_sessions_are_known_than_may(llm: LanguageModel) -> None:
    with rig(llm, max_known_sessions=2) as engine:
        for name in "abcd":
            engine.ask((user("Hi"),), session_id=name)
            engine.clock.now += 1000
        engine.core.step()
        assert {session.session_id for session in engine.core.parts.store} == {"c", "d"}


def test_the_model_is_as_before_behind_the_block(llm: LanguageModel) -> None:
    attention = llm.model.config._attn_implementation
    with rig(llm) as engine:
        engine.ask((user("Hi"),))
    assert llm.model.config._attn_implementation == attention
    assert not any(module._forward_hooks for module in llm.model.modules())
