"""Sixteen agents of two tenants with little room: no answer is swapped, no secret leaks."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from memdecay.classifier.llm import LanguageModel
from memdecay.runtime.tagger import RegionTagger
from memdecay.serving.engine.model.state import save_memory, state_bytes
from tests.serving.engine.rig import SYSTEM, Rig, Run, cache_config, rig, user

NUM_AGENTS = 16
NUM_TURNS = 3
CACHE = cache_config(64, "region", num_recent=12)
FACTS = [f"code{1000 + 37 * index}" for index in range(NUM_AGENTS)]


class Agent:
    """Talks with its own planted fact; the turns go one after the other."""

    def __init__(self, index: int) -> None:
        self.index = index
        self.tenant = ("ann", "ben")[index % 2]
        # Two tenants use the same names.
        self.session_id = f"s{index // 2}"
        words = "Go on with the tests. " * (index % 3)
        self.messages = [SYSTEM, user(f"Remember {FACTS[index]}. {words}")]
        self.runs: list[Run] = []

    def ask(self, engine: Rig) -> None:
        run = engine.submit(
            self.messages,
            self.tenant,
            session_id=self.session_id,
            max_tokens=6,
            request_id=f"{self.index}.{len(self.runs)}",
        )
        self.runs.append(run)

    def hear(self) -> None:
        said = {"role": "assistant", "content": self.runs[-1].finished.text}
        self.messages += [said, user("Which code was it?")]

    def answers(self) -> list[Any]:
        return [
            (run.finished.token_ids, run.finished.usage.num_prompt_tokens, run.finished.memory)
            for run in self.runs
        ]


@pytest.fixture(scope="module")
def alone(llm: LanguageModel, tagger: RegionTagger) -> list[tuple[Agent, torch.Tensor]]:
    """Let each agent talk with a server of its own."""
    lone = []
    for index in range(NUM_AGENTS):
        agent = Agent(index)
        with rig(llm, tagger, cache=CACHE, prefix_cache_bytes=10**8) as engine:
            for _ in range(NUM_TURNS):
                agent.ask(engine)
                engine.finish(agent.runs[-1])
                agent.hear()
            session = engine.session(agent.runs[-1], agent.tenant)
            lone.append((agent, session.memory.cache.slots.positions.clone()))
    return lone


def turn(engine: Rig, agents: list[Agent]) -> None:
    for agent in agents:
        agent.ask(engine)
    engine.finish(*(agent.runs[-1] for agent in agents))
    for agent in agents:
        agent.hear()


def test_agents_that_share_little_room_equal_agents_alone(
    llm: LanguageModel,
    tagger: RegionTagger,
    tmp_path: Path,
    alone: list[tuple[Agent, torch.Tensor]],
) -> None:
    """Through all tiers, a prefix that they share, and a restart before the last turn."""
    with rig(llm, tagger, cache=CACHE) as engine:
        memory = engine.session(engine.ask((SYSTEM, user("Hi " * 8)))).memory
        session_bytes = state_bytes(save_memory(memory, torch.device("cpu")))
        buffer_bytes = memory.cache.allocated_bytes
    options = {
        "cache": CACHE,
        "prefix_cache_bytes": 10**8,
        "kv_memory_bytes": 4 * buffer_bytes,
        "cpu_memory_bytes": 5 * session_bytes,
        "disk_folder": tmp_path / "kv",
    }
    agents = [Agent(index) for index in range(NUM_AGENTS)]
    with rig(llm, tagger, **options) as engine:
        for _ in range(NUM_TURNS - 1):
            turn(engine, agents)
            agents.reverse()
        tiers = engine.core.parts.tiers
        for tier in ("cpu", "disk"):
            assert tiers.num_offloaded[tier] > 0
            assert tiers.num_restored[tier] > 0
        assert engine.core.parts.prefixes.num_hit_tokens > 0
        assert tiers.use()["device"].used_bytes <= 4 * buffer_bytes
        engine.core.close()
    _check_files(tmp_path / "kv")
    with rig(llm, tagger, **options) as engine:
        assert {session.tier for session in engine.core.parts.store} == {"disk"}
        turn(engine, agents)
        assert all(agent.runs[-1].started.restored_from == "disk" for agent in agents)
        _check_transcripts(engine)
    for agent in agents:
        lone, _ = alone[agent.index]
        assert _without_bytes(agent.answers()) == _without_bytes(lone.answers())
        evicted = agent.runs[-1].finished.memory.evicted_per_region
        assert sum(evicted.values()) > 0
    # Else a swap would not show.
    assert len({agent.runs[0].finished.token_ids for agent in agents}) > NUM_AGENTS // 2


def _without_bytes(answers: list[Any]) -> list[Any]:
    return [(ids, num_prompt, replace(memory, kv_bytes=0)) for ids, num_prompt, memory in answers]


def _check_transcripts(engine: Rig) -> None:
    for index, fact in enumerate(FACTS):
        tenant, name = ("ann", "ben")[index % 2], f"s{index // 2}"
        for session in engine.core.parts.store:
            is_own = (session.tenant, session.session_id) == (tenant, name)
            assert (fact in session.transcript.text) == is_own


def _check_files(folder: Path) -> None:
    records = [path.read_text() for path in folder.glob("*.json")]
    assert len(records) == NUM_AGENTS
    for record in records:
        assert sum(fact in record for fact in FACTS) == 1
