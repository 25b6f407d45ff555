"""A small engine for tests: tiny models, a clock that stands still, a core that is stepped."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from transformers import Qwen2Config, Qwen2ForCausalLM

from memdecay.classifier.llm import LanguageModel
from memdecay.runtime.config import CacheConfig
from memdecay.runtime.tagger import RegionTagger
from memdecay.serving.engine.config import EngineConfig
from memdecay.serving.engine.core import EngineCore
from memdecay.serving.engine.events import Delta, Event, Failed, Finished, Started
from memdecay.serving.engine.request import GenerationRequest
from tests.tiny import CHATML, tiny_llama, tiny_tokenizer

SYSTEM = {"role": "system", "content": "You book flights. Never pay without asking the user first."}


def tiny_llm(template: str | None = CHATML, kind: str = "llama", **config: Any) -> LanguageModel:
    """Return a tiny model that answers in digits, which every tokenizer reads back unchanged."""
    tokenizer = tiny_tokenizer(template)
    options = {"max_position_embeddings": 4096, "initializer_range": 0.2} | config
    model = tiny_llama(**options) if kind == "llama" else tiny_qwen2(**options)
    digits = tokenizer.convert_tokens_to_ids(list("0123456789"))
    weights = torch.zeros_like(model.lm_head.weight)
    weights[digits] = model.lm_head.weight[digits]
    model.lm_head.weight.data = weights
    return LanguageModel(model, tokenizer, "tiny", torch.device("cpu"), torch.float32)


def tiny_qwen2(**config: Any) -> Qwen2ForCausalLM:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = Qwen2ForCausalLM(
            Qwen2Config(
                vocab_size=384,
                hidden_size=32,
                intermediate_size=64,
                num_hidden_layers=4,
                num_attention_heads=4,
                num_key_value_heads=2,
                tie_word_embeddings=False,
                bos_token_id=1,
                eos_token_id=2,
                pad_token_id=2,
                **config,
            )
        )
    return model.eval().requires_grad_(False)


def cache_config(budget_tokens: int = 96, policy: str = "memdecay", **options: Any) -> CacheConfig:
    return CacheConfig(budget_tokens, policy=policy, **({"num_recent": 12} | options))


def user(text: str) -> dict[str, str]:
    return {"role": "user", "content": text}


def long_conversation(name: str, num_messages: int = 8) -> tuple[dict[str, str], ...]:
    """Return a conversation of about 35 tokens a message that ends with the user."""
    said = [
        {
            "role": "assistant" if index % 2 else "user",
            "content": f"{name} {index}: " + "words and more words of it. ",
        }
        for index in range(num_messages - 1)
    ]
    return (SYSTEM, *said, user(f"{name} asks."))


class Clock:
    """A clock that moves only when told to."""

    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


@dataclass
class Run:
    """The events of one request."""

    events: list[Event] = field(default_factory=list)

    @property
    def started(self) -> Started:
        (event,) = (event for event in self.events if isinstance(event, Started))
        return event

    @property
    def finished(self) -> Finished:
        assert isinstance(self.events[-1], Finished), self.events[-1]
        return self.events[-1]

    @property
    def failed(self) -> Failed:
        assert isinstance(self.events[-1], Failed), self.events[-1]
        return self.events[-1]

    @property
    def has_ended(self) -> bool:
        return bool(self.events) and isinstance(self.events[-1], Finished | Failed)

    @property
    def deltas(self) -> list[Delta]:
        return [event for event in self.events if isinstance(event, Delta)]


class Rig:
    """A core with its hooks on the model."""

    def __init__(self, core: EngineCore, clock: Clock) -> None:
        self.core = core
        self.clock = clock
        self.logits: dict[str, list[Tensor]] = {}
        self._watch_logits()

    def submit(self, messages: Any = None, tenant: str = "ann", **options: Any) -> Run:
        """Take a request in; ``messages`` may be missing for a prompt."""
        run = Run()
        given = {} if messages is None else {"messages": tuple(messages)}
        request = GenerationRequest(tenant=tenant, **given, **({"max_tokens": 8} | options))
        self.core.enqueue(self.core.prepare(request, run.events.append))
        return run

    def ask(self, messages: Any = None, tenant: str = "ann", **options: Any) -> Run:
        """Take a request in and go on until it has ended."""
        run = self.submit(messages, tenant, **options)
        self.finish(run)
        return run

    def finish(self, *runs: Run) -> None:
        """Go on until these have ended."""
        for _ in range(5000):
            if all(run.has_ended for run in runs):
                return
            self.core.step()
        raise AssertionError("the requests do not end")

    def session(self, run: Run, tenant: str = "ann") -> Any:
        return self.core.parts.store.get(tenant, run.started.session_id)

    def _watch_logits(self) -> None:
        """Note the logits from which each request's tokens are chosen."""
        choose = self.core._choose

        def watched(turn: Any, logits: Tensor) -> bool:
            self.logits.setdefault(turn.request.request_id, []).append(logits.clone())
            return choose(turn, logits)

        self.core._choose = watched  # type: ignore[method-assign]


@contextmanager
def rig(
    llm: LanguageModel,
    tagger: RegionTagger | None = None,
    *,
    cache: CacheConfig | None = None,
    clock: Clock | None = None,
    **options: Any,
) -> Iterator[Rig]:
    """Return a core that can be stepped inside the block."""
    clock = clock or Clock()
    settings = {"chunk_tokens": 32, "prefill_tokens_per_step": 32, "prefix_cache_bytes": 0}
    config = EngineConfig(cache=cache or cache_config(), **(settings | options))
    core = EngineCore(llm, config, tagger, clock)
    try:
        with core.attached():
            yield Rig(core, clock)
    finally:
        if core.parts.folder is not None:
            core.parts.folder.close()
