"""Sessions whose tokens are tagged by rules."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from memdecay.classifier.llm import LanguageModel
from memdecay.runtime.rule_tagger import RuleTagger
from memdecay.runtime.session import Session
from memdecay.serving.engine.config import SharedPrompt
from tests.serving.engine.rig import SYSTEM, Rig, cache_config, long_conversation, rig, user

CONFIG = cache_config(policy="region")
TALK = long_conversation("Ann", 4)


def assert_same_tags(served: Any, cache: Any) -> None:
    for column in ("positions", "regions", "importance", "decay"):
        assert torch.equal(getattr(served.slots, column), getattr(cache.slots, column))


def test_an_answer_alone_is_that_of_a_session(llm: LanguageModel) -> None:
    messages = TALK
    session = Session(llm, CONFIG, RuleTagger(), chunk_tokens=32)
    with rig(llm, RuleTagger(), cache=CONFIG) as engine:
        for num_tokens in (20, 9):
            # Read in one go with the head of the answer, as the engine does.
            session._messages = list(messages)
            reply = session.reply(num_tokens)
            run = engine.ask(messages, session_id="s", max_tokens=num_tokens)
            assert run.finished.token_ids == reply.token_ids
            assert run.finished.memory.evicted_per_region == session.stats().evicted_per_region
            assert_same_tags(engine.session(run).memory.cache, session.cache)
            messages = (*session.messages, user("Which error was it? I decided on plan B."))
    assert len([n for n in run.finished.memory.kept_per_region.values() if n]) > 1


@pytest.mark.parametrize("place", ["cpu", "disk"])
def test_a_session_that_was_moved_goes_on_exactly(
    llm: LanguageModel, tmp_path: Path, place: str
) -> None:
    def talk(engine: Rig) -> Any:
        first = engine.ask(TALK, session_id="s", max_tokens=4)
        engine.ask((user("Hi"),), session_id="other", max_tokens=1)
        said = {"role": "assistant", "content": first.finished.text}
        again = (*TALK, said, user("And then?"))
        run = engine.ask(again, session_id="s", request_id="again", max_tokens=12)
        return run, engine.session(run).memory.cache, torch.stack(engine.logits["again"])

    options = {"cpu": {"cpu_memory_bytes": 10**9}, "disk": {"disk_folder": tmp_path}}[place]
    with rig(llm, RuleTagger(), cache=CONFIG) as engine:
        _, lone, expected = talk(engine)
    with rig(llm, RuleTagger(), cache=CONFIG, max_sessions=1, **options) as engine:
        run, cache, logits = talk(engine)
    assert run.started.restored_from == place
    assert torch.equal(logits, expected)
    assert_same_tags(cache, lone)


def test_a_session_from_a_shared_prompt_equals_one_that_read_it(llm: LanguageModel) -> None:
    rules = {"role": "system", "content": SYSTEM["content"] * 2}
    caches = []
    for shared in ((), (SharedPrompt((rules,)),)):
        options = {"prefix_cache_bytes": 10**8, "shared_prompts": shared}
        with rig(llm, RuleTagger(), cache=CONFIG, **options) as engine:
            engine.core.warm_up()
            run = engine.ask((rules, user("Book it.")), max_tokens=4)
            assert run.started.origin == ("prefix" if shared else "new")
            caches.append(engine.session(run).memory.cache)
    assert_same_tags(*caches)


def test_raw_prompts_are_ordinary_context(llm: LanguageModel) -> None:
    with rig(llm, RuleTagger(), cache=CONFIG) as engine:
        run = engine.ask(prompt="You are an agent. " * 3, session_id="s", max_tokens=4)
        kept = run.finished.memory.kept_per_region
        assert sum(kept.values()) == kept["ordinary_context"] > 0
        # The name may be used for a conversation afterwards.
        assert engine.ask(TALK, session_id="s").finished.memory.kept_per_region
