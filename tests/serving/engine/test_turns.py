"""From one turn to the next: what is read again, what is not, and what the client is told."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from memdecay.classifier.errors import ConfigError
from memdecay.classifier.llm import LanguageModel
from memdecay.classifier.messages import ToolCall
from memdecay.runtime.sampling import SamplingConfig
from memdecay.runtime.tagger import RegionTagger
from memdecay.runtime.transcript import TokenTable
from memdecay.serving.engine.request import ErrorKind, GenerationRequest, RequestRefusedError
from memdecay.serving.engine.turns import prompt as prompt_module
from tests.serving.engine.rig import (
    SYSTEM,
    Run,
    cache_config,
    long_conversation,
    rig,
    tiny_llm,
    user,
)
from tests.tiny import NATIVE_TOOLS, TRIMMING


def answered(messages: Any, run: Run) -> tuple[Any, ...]:
    return (*messages, {"role": "assistant", "content": run.finished.text})


@pytest.mark.parametrize("session_id", ["mine", None])
def test_the_next_turn_runs_only_what_is_new(llm: LanguageModel, session_id: str | None) -> None:
    messages = (SYSTEM, user("Find me a flight to Oslo."))
    with rig(llm, cache=cache_config(policy="full")) as engine:
        first = engine.ask(messages, session_id=session_id)
        assert first.started.origin == "new"
        assert first.started.num_cached_tokens == 0
        more = (*answered(messages, first), user("And back?"))
        second = engine.ask(more, session_id=session_id)
        assert second.started.session_id == first.started.session_id
        assert second.started.origin == "session"
        assert second.started.divergence is None
        # All but the last token of the answer, which was chosen but not run.
        num_known = first.started.num_prompt_tokens + 8 - 1
        assert second.started.num_cached_tokens == num_known
        assert second.finished.usage.num_cached_tokens == num_known
        fresh = engine.ask(more, tenant="ben")
        assert fresh.finished.token_ids == second.finished.token_ids


def test_an_unnamed_session_is_found_by_its_conversation_alone(llm: LanguageModel) -> None:
    messages = (SYSTEM, user("Find me a flight."))
    with rig(llm) as engine:
        first = engine.ask(messages)
        other_question = engine.ask((SYSTEM, user("Find me a train.")))
        retry = engine.ask(messages)
        salted = engine.ask((*answered(messages, first), user("Go on")), cache_salt="other")
        keyed = engine.ask((*answered(messages, first), user("Go on")), prompt_cache_key="other")
        followed = engine.ask((*answered(messages, first), user("Go on")))
        ids = {run.started.session_id for run in (first, other_question, retry, salted, keyed)}
        assert len(ids) == 5
        assert followed.started.session_id in (first.started.session_id, retry.started.session_id)
        # The same beginning goes on only once.
        again = engine.ask((*answered(messages, first), user("Go back")))
        assert again.started.session_id not in (
            followed.started.session_id,
            *ids - {first.started.session_id, retry.started.session_id},
        )


def test_a_session_in_use_is_not_shared(llm: LanguageModel) -> None:
    messages = (SYSTEM, user("Find me a flight."))
    with rig(llm) as engine:
        first = engine.ask(messages)
        more = (*answered(messages, first), user("Go on"))
        runs = [engine.submit(more), engine.submit(more)]
        engine.finish(*runs)
        assert runs[0].started.session_id == first.started.session_id
        assert runs[1].started.session_id != first.started.session_id
        assert runs[0].finished.token_ids == runs[1].finished.token_ids


def test_requests_of_a_named_session_follow_each_other(llm: LanguageModel) -> None:
    with rig(llm) as engine:
        first = engine.submit((user("One"),), session_id="s", max_tokens=20)
        engine.core.step()
        second = engine.submit((user("Two"),), session_id="s")
        with pytest.raises(RequestRefusedError, match="is waiting already") as refusal:
            engine.submit((user("Three"),), session_id="s")
        assert refusal.value.kind is ErrorKind.SESSION_BUSY
        for _ in range(5):
            engine.core.step()
        assert not second.events
        engine.finish(first, second)
        assert second.finished.usage.num_completion_tokens == 8


@pytest.mark.parametrize("policy", ["full", "region"])
def test_a_changed_past_is_named_and_read_again(llm: LanguageModel, policy: str) -> None:
    messages = long_conversation("Ann")
    changed = (*messages[:-1], user("Something else."))
    with rig(llm, cache=cache_config(64, policy=policy)) as engine:
        engine.ask(messages, session_id="s", max_tokens=30)
        second = engine.ask(changed, session_id="s")
        divergence = second.started.divergence
        assert divergence is not None
        assert divergence == second.finished.divergence
        ids = engine.session(second).transcript.tokens.input_ids
        assert 0 < divergence.token_index < len(ids)
        assert divergence.is_read_again == (second.started.num_cached_tokens == 0)
        fresh = engine.ask(changed, tenant="ben")
        if policy == "full":
            assert second.started.num_cached_tokens == divergence.token_index
            assert second.finished.token_ids == fresh.finished.token_ids


def test_a_template_that_rewrites_answers_diverges_inside_of_them() -> None:
    """An answer whose space the template trims is followed; another text is not."""
    trimming = tiny_llm(TRIMMING)
    with rig(trimming, cache=cache_config(policy="full")) as engine:
        messages = (user("Hello"),)
        first = engine.ask(messages, forced_output=" 123 ")
        followed = engine.ask((*answered(messages, first), user("Go on")))
        assert followed.started.divergence is None
        stripped = ({"role": "assistant", "content": "3"}, user("Go on"))
        second = engine.ask((*messages, *stripped), tenant="ben")
        third = engine.ask((*messages, *stripped, *stripped), tenant="ben")
        divergence = third.started.divergence
        assert divergence is not None
        assert not divergence.is_read_again
        assert divergence.token_index >= second.started.num_prompt_tokens


def test_another_salt_starts_a_named_session_anew(llm: LanguageModel) -> None:
    with rig(llm) as engine:
        engine.ask((user("One"),), session_id="s")
        second = engine.ask((user("One"),), session_id="s", cache_salt="x")
        assert second.started.num_cached_tokens == 0
        assert "another salt" in second.started.notes[0]


def test_a_forced_answer_goes_through_the_model(llm: LanguageModel) -> None:
    call = ToolCall("search", {"query": "Oslo"}).to_text()
    messages = (SYSTEM, user("Find me a flight."))
    with rig(llm, cache=cache_config(policy="full")) as engine:
        forced = engine.ask(messages, forced_output=call, max_tokens=99)
        assert forced.finished.text == call == "".join(delta.text for delta in forced.deltas)
        assert forced.finished.finish_reason == "stop"
        num_ids = len(forced.finished.token_ids)
        assert forced.finished.usage.num_completion_tokens == num_ids
        more = (*answered(messages, forced), {"role": "tool", "content": "9:40"})
        second = engine.ask(more)
        assert second.started.num_cached_tokens >= forced.started.num_prompt_tokens + num_ids - 1
        fresh = engine.ask(more, tenant="ben")
        assert second.finished.token_ids == fresh.finished.token_ids
        ids = forced.finished.token_ids
        assert engine.ask(messages, forced_output=ids, max_tokens=99).finished.text == call
        cut = engine.ask(messages, forced_output=ids, max_tokens=3)
        assert cut.finished.token_ids == ids[:3]
        assert cut.finished.finish_reason == "length"


def test_structured_calls_continue_a_forced_call(llm: LanguageModel) -> None:
    call = ToolCall("search", {"query": "Oslo"}, "1")
    messages = (SYSTEM, user("Find me a flight."))
    with rig(llm) as engine:
        forced = engine.ask(messages, forced_output=call.to_text(), max_tokens=99)
        assistant = {"role": "assistant", "content": None, "tool_calls": [call.to_openai()]}
        tool = {"role": "tool", "content": "9:40", "tool_call_id": "1"}
        second = engine.ask((*messages, assistant, tool))
        assert second.started.session_id == forced.started.session_id
        assert second.started.divergence is None


@pytest.mark.parametrize("template", [None, NATIVE_TOOLS])
def test_the_model_is_told_of_tools(template: str | None) -> None:
    tool = {"type": "function", "function": {"name": "search_flights", "parameters": {}}}
    with rig(tiny_llm(template)) as engine:
        runs = [
            engine.ask(messages, tools=(tool,))
            for messages in ((user("Hello"),), (SYSTEM, user("Hello")))
        ]
        for run in runs:
            assert "search_flights" in engine.session(run).transcript.text
        assert runs[1].started.num_prompt_tokens > runs[0].started.num_prompt_tokens


def test_a_stop_text_ends_the_answer_and_leaves_no_trace(llm: LanguageModel) -> None:
    messages = (SYSTEM, user("Count."))
    with rig(llm, cache=cache_config(policy="full")) as engine:
        run = engine.ask(messages, forced_output="1 2 3 STOP 4", stop=("3 STOP",), max_tokens=99)
        assert run.finished.text == "1 2 "
        assert run.finished.finish_reason == "stop"
        more = (*answered(messages, run), user("Go on"))
        second, fresh = engine.ask(more), engine.ask(more, tenant="ben")
        assert second.started.session_id == run.started.session_id
        assert second.finished.token_ids == fresh.finished.token_ids


def test_a_stop_token_ends_the_answer(llm: LanguageModel) -> None:
    stop_id = llm.tokenizer.eos_token_id
    digit = llm.tokenizer.convert_tokens_to_ids("7")
    with rig(llm) as engine:
        run = engine.ask((user("Hi"),), forced_output=(digit, stop_id, digit))
        assert run.finished.token_ids == (digit,)
        assert run.finished.finish_reason == "stop"
        assert run.finished.usage.num_completion_tokens == 2


def test_draws_follow_the_seed_whoever_else_runs(llm: LanguageModel) -> None:
    def sampling(seed: int) -> SamplingConfig:
        return SamplingConfig(temperature=5.0, top_p=0.9, seed=seed)

    messages = (SYSTEM, user("Say a number."))
    with rig(llm) as engine:
        alone = engine.ask(messages, sampling=sampling(1), max_tokens=12)
        runs = [
            engine.submit(messages, sampling=sampling(seed), max_tokens=12) for seed in (1, 2, 1)
        ]
        engine.finish(*runs)
        texts = [run.finished.text for run in runs]
        assert texts[0] == texts[2] == alone.finished.text
        assert texts[0] != texts[1]


def test_prompts_continue_sessions_that_read_all_of_them(llm: LanguageModel) -> None:
    with rig(llm, cache=cache_config(policy="full")) as engine:
        first = engine.ask(prompt="The agent reads the file")
        text = "The agent reads the file" + first.finished.text
        second = engine.ask(prompt=text + " and runs the tests")
        assert second.started.session_id == first.started.session_id
        assert second.started.num_cached_tokens == first.started.num_prompt_tokens + 7
        other = engine.ask(prompt="The agent reads the tests")
        assert other.started.session_id != first.started.session_id
        ids = tuple(llm.tokenizer("The agent reads")["input_ids"])
        third = engine.ask(prompt=ids)
        fourth = engine.ask(prompt=(*ids, *third.finished.token_ids, *ids))
        assert fourth.started.session_id == third.started.session_id
        assert fourth.started.num_cached_tokens == len(ids) + 7


def test_the_report_adds_up(llm: LanguageModel, tagger: RegionTagger) -> None:
    messages = long_conversation("Ann")
    with rig(llm, tagger, cache=cache_config(64, policy="region")) as engine:
        first = engine.ask(messages, session_id="s", max_tokens=30)
        second = engine.ask((*answered(messages, first), user("Go on")), session_id="s")
        for run in (first, second):
            memory = run.finished.memory
            assert sum(memory.kept_per_region.values()) == memory.tokens_kept <= 64
            num_evicted = sum(memory.evicted_per_region.values())
            assert memory.tokens_kept + num_evicted == memory.tokens_seen
        before = first.finished.memory.evicted_per_region
        assert first.finished.memory.newly_evicted_per_region == before
        assert second.finished.memory.newly_evicted_per_region == {
            name: count - before[name]
            for name, count in second.finished.memory.evicted_per_region.items()
        }
        bytes_per_token = 4 * 2 * 2 * 8 * 4  # layers, keys and values, heads, size, float32
        assert second.finished.memory.kv_bytes == 64 * bytes_per_token
        session = engine.session(second)
        assert session.reserved_bytes == 64 * bytes_per_token
        assert [one.tokens_seen for one in session.history] == sorted(
            one.tokens_seen for one in session.history
        )
        assert torch.equal(
            session.memory.cache.slots.positions[0][-12:],
            torch.arange(session.memory.num_tokens)[-12:],
        )


def test_tokens_that_lost_precision_are_told(llm: LanguageModel) -> None:
    """Where tokens fade, none is evicted for a long time, and yet something is lost."""
    with rig(llm, cache=cache_config(96)) as engine:
        short = engine.ask((user("Hi"),), session_id="short")
        long = engine.ask(long_conversation("Ann"), session_id="long", max_tokens=30)
        for run in (short, long):
            memory, facts = run.finished.memory, engine.session(run).look()
            assert sum(memory.kept_per_precision.values()) == memory.tokens_kept
            assert memory.kept_per_precision == facts.kept_per_precision
            assert 0 < facts.occupied_bytes <= memory.kv_bytes <= 96 * 512
        assert short.finished.memory.tokens_faded == 0
        assert engine.session(short).facts.occupied_bytes == 512 * short.finished.memory.tokens_kept
        memory = long.finished.memory
        assert memory.tokens_faded > 96
        assert memory.tokens_faded >= len(changed(engine.session(long))) > 0


@pytest.mark.parametrize(
    ("options", "kind", "text"),
    [
        ({"prompt": (5, 99999)}, ErrorKind.INVALID_REQUEST, "knows those from 0"),
        ({"messages": (user("x " * 5000),)}, ErrorKind.TOO_LONG, "the model's context of 4096"),
        ({"messages": (user("x"),), "max_tokens": 4096}, ErrorKind.TOO_LONG, "lower max_tokens"),
        ({"messages": (user("x " * 100),)}, ErrorKind.TOO_LONG, "newest user message"),
        (
            {"messages": (user("x " * 60), {"role": "tool", "content": "y " * 60}), "pins": (0, 1)},
            ErrorKind.TOO_LONG,
            "pin less",
        ),
    ],
)
def test_what_can_not_fit_is_refused_before_anything_runs(
    llm: LanguageModel, options: dict[str, Any], kind: ErrorKind, text: str
) -> None:
    with rig(llm) as engine:
        with pytest.raises(RequestRefusedError, match=text) as refusal:
            engine.submit(**options)
        assert refusal.value.kind is kind
        assert engine.core.is_idle
        assert len(engine.core.parts.store) == 0


def test_long_prompts_are_refused_before_much_time_is_spent(
    llm: LanguageModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Reading one of megabytes would keep the tokenizer from all others for minutes."""
    with rig(llm) as engine:
        longest = max(map(len, llm.tokenizer.get_vocab()))
        fitting = GenerationRequest(tenant="ann", prompt="x " * 30)

        def cross(*_: Any, **__: Any) -> Any:
            raise AssertionError("too late")

        with monkeypatch.context() as patch:
            patch.setattr(TokenTable, "of", cross)
            with pytest.raises(RequestRefusedError, match="more than the model's context of 4096"):
                engine.submit(prompt="x " * 4096)
            with pytest.raises(RequestRefusedError, match="more than the model's context of 4096"):
                engine.submit(prompt=(5,) * 4096)
            assert len(engine.core.intake.count(fitting)) == 60
            patch.setattr(prompt_module, "tokenize", cross)
            text = "x" * (4096 * longest + 1)
            for options in ({"prompt": text}, {"messages": (user(text),)}):
                with pytest.raises(RequestRefusedError, match="characters, more than") as refusal:
                    engine.submit(**options)
                assert refusal.value.kind is ErrorKind.TOO_LONG
            with pytest.raises(RequestRefusedError, match="characters, more than"):
                engine.core.intake.count(GenerationRequest(tenant="ann", prompt=text))
            with pytest.raises(RequestRefusedError, match="has at least 5000 tokens"):
                engine.submit(prompt="<|im_end|>" * 5000)
            patch.setattr(prompt_module, "render", cross)
            with pytest.raises(RequestRefusedError, match="has 4097 messages, more than"):
                engine.submit((user("x"),) * 4097)


@pytest.mark.parametrize("given", [{"prompt": "x y"}, {"prompt": (5, 6, 7)}, {"messages": "chat"}])
def test_counting_gives_the_tokens_that_are_read(llm: LanguageModel, given: dict[str, Any]) -> None:
    if "messages" in given:
        given = {"messages": long_conversation("Ann", 4)}
    request = GenerationRequest(tenant="ann", **given)
    with rig(llm) as engine:
        counted = engine.core.intake.count(request)
        assert list(counted) == engine.core.intake.read(request).tokens.input_ids.tolist()


@pytest.mark.parametrize("policy", ["memdecay", "full"])
def test_memory_for_no_session_is_refused_at_the_start(llm: LanguageModel, policy: str) -> None:
    cache = cache_config(96, policy)
    with rig(llm, cache=cache, kv_memory_bytes=96 * 512) as engine:
        assert engine.core.parts.most_kv_bytes == 96 * 512
        engine.ask((user("Hi"),))
    with (
        pytest.raises(ConfigError, match="holds no session"),
        rig(llm, cache=cache, kv_memory_bytes=96 * 512 - 1),
    ):
        pass


def test_without_a_limit_the_number_of_sessions_is_one(llm: LanguageModel) -> None:
    with rig(llm, cache=cache_config(96), max_sessions=3) as engine:
        runs = [engine.ask((user("Hi " * 8),), f"tenant {i}", max_tokens=40) for i in range(5)]
        used = engine.core.parts.tiers.use()["device"].used_bytes
        assert runs
        assert used <= engine.core.parts.most_kv_bytes == 3 * 96 * 512


def test_a_session_larger_than_all_memory_is_refused(llm: LanguageModel) -> None:
    with (
        rig(llm, cache=cache_config(policy="full"), kv_memory_bytes=300_000) as engine,
        pytest.raises(RequestRefusedError, match="bytes of KV memory"),
    ):
        engine.submit((user("x"),), max_tokens=400)


def changed(session: Any) -> set[int]:
    """Return the positions of tokens that have lost precision or were forgotten."""
    fates = session.memory.cache.fates()
    return {position for fate in fates for position in range(fate.start, fate.stop)}


@pytest.mark.parametrize("policy", ["region", "memdecay"])
def test_pinned_messages_stay_whole(llm: LanguageModel, policy: str) -> None:
    messages = long_conversation("Ann", 10)
    with rig(llm, cache=cache_config(128, policy=policy)) as engine:
        run = engine.ask(messages, pins=(1,), session_id="s", max_tokens=30)
        session = engine.session(run)
        own = (session.transcript.tokens.message_index == 1).nonzero()[0].tolist()
        kept = session.memory.cache.slots.positions[0].tolist()
        assert len(own) > 20
        assert set(own) <= set(kept)
        assert not set(own) & changed(session)
        assert changed(session)
        free = engine.ask(messages, session_id="free", max_tokens=30)
        assert set(own) & changed(engine.session(free))


def test_a_pin_that_comes_too_late_is_named(llm: LanguageModel) -> None:
    messages = long_conversation("Ann", 10)
    with rig(llm, cache=cache_config(128, policy="region")) as engine:
        run = engine.ask(messages, session_id="s")
        late = engine.ask((*answered(messages, run), user("Go on")), pins=(4,), session_id="s")
        assert "evicted before it was pinned" in late.started.notes[0]


def test_pins_are_those_of_the_newest_request(llm: LanguageModel) -> None:
    messages = long_conversation("Ann", 6)
    more = long_conversation("Ben", 6)[1:]
    kept = {}
    for pins in ((), (1,)):
        with rig(llm, cache=cache_config(128, policy="region")) as engine:
            run = engine.ask(messages, pins=(1,), session_id="s")
            engine.ask((*answered(messages, run), *more), pins=pins, session_id="s", max_tokens=30)
            session = engine.session(run)
            own = (session.transcript.tokens.message_index == 1).nonzero()[0].tolist()
            kept[pins] = set(own) & set(session.memory.cache.slots.positions[0].tolist())
    assert len(kept[1,]) == len(own)
    assert kept[()] < kept[1,]
