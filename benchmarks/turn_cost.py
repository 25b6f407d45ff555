"""What a turn of one session costs the engine, early and late in a conversation.

    python benchmarks/turn_cost.py --layers 2 --budget 2048

A model of SmolLM2's shape with few layers and random weights, so that what is not the model shows.
Times are processor seconds of the engine's thread, which a busy machine does not change much. The
first turn at each depth has nothing cached, the others go on with its session.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from transformers import AutoConfig, AutoModelForCausalLM

from memdecay.classifier.embedded import EMBEDDED_NAME, embedded_model_folder
from memdecay.classifier.llm import LanguageModel, load_tokenizer
from memdecay.data.generator import load_synthetic_traces
from memdecay.runtime.bench.speed.stand_ins import random_classifier
from memdecay.runtime.config import CacheConfig
from memdecay.runtime.tagger import RegionTagger
from memdecay.serving.bench.config import LoadConfig
from memdecay.serving.bench.workload import AgentScript, make_scripts
from memdecay.serving.engine.config import EngineConfig
from memdecay.serving.engine.core import EngineCore
from memdecay.serving.engine.events import Delta, Event, Finished, Started
from memdecay.serving.engine.request import GenerationRequest

ANSWER = {"role": "assistant", "content": "I will look at the file and then say what is wrong."}
LOAD = LoadConfig(num_agents=1)
WARM_UP_DEPTH = 8
DEPTHS = (20, 96)
NUM_TURNS = 5
_now = time.thread_time


@dataclass
class Turn:
    """The events of one turn, and the time of its first text."""

    events: list[Event] = field(default_factory=list)
    first_text_at: float | None = None

    def listen(self, event: Event) -> None:
        """Take an event in."""
        if isinstance(event, Delta) and self.first_text_at is None:
            self.first_text_at = _now()
        self.events.append(event)

    def find(self, kind: type[Any]) -> Any:
        """Return the event of a kind."""
        return next(event for event in self.events if isinstance(event, kind))


def main() -> None:
    """Print one line a turn."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--budget", type=int, default=2048)
    options = parser.parse_args()
    torch.set_num_threads(1)
    llm = small_llm(options.layers)
    traces = [
        [message.to_openai() for message in trace.messages] for trace in load_synthetic_traces()
    ]
    (script,) = make_scripts(traces, LOAD, llm.tokenizer, llm.max_context)
    with tempfile.TemporaryDirectory() as folder:
        tagger = RegionTagger(random_classifier(llm, Path(folder)), "cpu")
        for policy in ("memdecay", "full"):
            cache = CacheConfig(budget_tokens=options.budget, policy=policy)
            core = EngineCore(llm, EngineConfig(cache=cache), tagger, time.time)
            with core.attached():
                core.warm_up()
                for _ in measure(core, script, WARM_UP_DEPTH):
                    pass
                for depth in DEPTHS:
                    for line in measure(core, script, depth):
                        print(policy, line, flush=True)


def small_llm(num_layers: int) -> LanguageModel:
    """Return a model of SmolLM2's shape with few layers and random weights."""
    config = AutoConfig.from_pretrained(embedded_model_folder(), num_hidden_layers=num_layers)
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(config, dtype=torch.float32)
    model = model.eval().requires_grad_(False)
    tokenizer = load_tokenizer(EMBEDDED_NAME)
    return LanguageModel(model, tokenizer, "small", torch.device("cpu"), torch.float32)


def measure(core: EngineCore, script: AgentScript, depth: int) -> Iterator[str]:
    """Yield a line for each turn from this round on."""
    said: list[Mapping[str, Any]] = list(script.opening)
    for message in script.rounds[:depth]:
        said += [message, ANSWER]
    said.pop()
    for number in range(depth, depth + NUM_TURNS):
        line, text = run_turn(core, said, f"from-{depth}")
        yield f"round {number}: {line}"
        following = script.rounds[min(number, len(script.rounds) - 1)]
        said += [{"role": "assistant", "content": text}, following]


def run_turn(
    core: EngineCore, said: Sequence[Mapping[str, Any]], session_id: str
) -> tuple[str, str]:
    """Run one turn; return its figures and its answer."""
    turn = Turn()
    request = GenerationRequest(
        tenant="bench",
        session_id=session_id,
        messages=tuple(said),
        max_tokens=LOAD.max_tokens,
    )
    began = _now()
    prepared = core.prepare(request, turn.listen)
    prepared_at = _now()
    core.enqueue(prepared)
    while not core.is_idle:
        core.step()
    ended = _now()
    started, finished = turn.find(Started), turn.find(Finished)
    first = (turn.first_text_at or ended) - began
    line = (
        f"{started.num_prompt_tokens} tokens, {started.num_cached_tokens} cached, prepared in "
        f"{prepared_at - began:.3f} s, first text after {first:.3f} s, whole {ended - began:.3f} "
        f"s, {finished.memory.kv_bytes / 2**20:.1f} MiB"
    )
    return line, finished.text


if __name__ == "__main__":
    main()
