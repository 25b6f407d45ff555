"""Sessions that decode together are what they would be alone."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from memdecay.classifier.llm import LanguageModel
from memdecay.runtime.session import Session
from memdecay.runtime.tagger import RegionTagger
from tests.serving.engine.rig import cache_config, long_conversation, rig, tiny_llm, user


@pytest.mark.parametrize("policy", ["full", "streaming", "region", "memdecay"])
def test_an_answer_alone_is_that_of_a_session(
    llm: LanguageModel, tagger: RegionTagger, policy: str
) -> None:
    config = cache_config(policy=policy)
    messages = long_conversation("Ann")
    session = Session(llm, config, tagger, chunk_tokens=32)
    with rig(llm, tagger, cache=config) as engine:
        # A session starts counting the steps between two looks at attention with every turn, the
        # engine goes on counting: with feedback the second turn may differ.
        for num_tokens in (40,) if policy == "memdecay" else (40, 20):
            # Read in one go with the head of the answer, as the engine does.
            session._messages = list(messages)
            reply = session.reply(num_tokens)
            finished = engine.ask(messages, session_id="s", max_tokens=num_tokens).finished
            assert finished.token_ids == reply.token_ids
            assert finished.text == reply.text
            assert finished.usage.num_prompt_tokens == reply.num_prompt_tokens
            stats = session.stats()
            assert finished.memory.kept_per_region == stats.kept_per_region
            assert finished.memory.evicted_per_region == stats.evicted_per_region
            served = engine.core.parts.store.get("ann", "s")
            assert served is not None
            assert served.memory is not None
            mine, lone = served.memory.cache, session.cache
            # Only the full cache has neither forgotten anything nor let it fade.
            assert mine.fates() == lone.fates()
            assert bool(mine.fates()) == (policy != "full")
            for column in ("positions", "regions", "importance"):
                assert torch.equal(getattr(mine.slots, column), getattr(lone.slots, column))
            messages = (*session.messages, user("And then?"))


@pytest.mark.parametrize("kind", ["llama", "qwen2"])
def test_many_sessions_together_equal_each_alone(
    tagger: RegionTagger, llm: LanguageModel, kind: str
) -> None:
    if kind == "qwen2":
        llm, tagger = tiny_llm(kind="qwen2"), None  # type: ignore[assignment]
    talks = [long_conversation(f"Agent{i}", 2 + i % 7) for i in range(6)]
    more = user("And what then?")

    def run(engine: Any, index: int, ids: list[str]) -> list[Any]:
        first = engine.submit(
            talks[index], request_id=ids[0], session_id=f"s{index}", max_tokens=20 + index
        )
        return [first]

    alone: dict[int, Any] = {}
    for index in range(len(talks)):
        with rig(llm, tagger) as engine:
            (first,) = run(engine, index, [f"a{index}"])
            engine.finish(first)
            answer = {"role": "assistant", "content": first.finished.text}
            second = engine.ask(
                (*talks[index], answer, more), request_id=f"b{index}", session_id=f"s{index}"
            )
            positions = engine.session(first).memory.cache.slots.positions
            alone[index] = (first.finished, second.finished, engine.logits, positions)
    with rig(llm, tagger) as engine:
        firsts = [run(engine, index, [f"a{index}"])[0] for index in range(len(talks))]
        engine.finish(*firsts)
        seconds = [
            engine.submit(
                (*talk, {"role": "assistant", "content": first.finished.text}, more),
                request_id=f"b{index}",
                session_id=f"s{index}",
            )
            for index, (talk, first) in enumerate(zip(talks, firsts, strict=True))
        ]
        engine.finish(*seconds)
        for index, (first, second) in enumerate(zip(firsts, seconds, strict=True)):
            lone_first, lone_second, logits, positions = alone[index]
            assert first.finished.token_ids == lone_first.token_ids
            assert second.finished.token_ids == lone_second.token_ids
            assert second.finished.memory == lone_second.memory
            assert second.finished.usage == lone_second.usage
            assert torch.equal(engine.session(first).memory.cache.slots.positions, positions)
            for name in (f"a{index}", f"b{index}"):
                together, lone = (torch.stack(run[name]) for run in (engine.logits, logits))
                torch.testing.assert_close(together, lone, atol=1e-4, rtol=1e-4)
