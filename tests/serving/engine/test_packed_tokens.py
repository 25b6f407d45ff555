"""Tokens that have lost precision are attended to as they are stored."""

from __future__ import annotations

import pytest
import torch

from memdecay.classifier.llm import LanguageModel
from memdecay.runtime import rehearsal
from memdecay.runtime.fading_layer import FadingLayer
from memdecay.runtime.rehearsal import _Heads
from memdecay.serving.engine.config import EngineConfig
from memdecay.serving.engine.engine import Engine
from memdecay.serving.engine.model.runner import ModelRunner
from tests.serving.engine.rig import cache_config, long_conversation, rig, tiny_llm

pytest.importorskip("numba")


def test_choosing_tokens_unpacks_nothing(
    llm: LanguageModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    unpacked: list[int] = []
    dense = FadingLayer.dense
    monkeypatch.setattr(
        FadingLayer, "dense", lambda layer, dtype: unpacked.append(1) or dense(layer, dtype)
    )
    counts = []
    # What watches attention unpacks what it looks at.
    with rig(llm, cache=cache_config(attention_feedback=False)) as engine:
        for name, num_tokens in (("Ann", 1), ("Bob", 24)):
            unpacked.clear()
            run = engine.ask(long_conversation(name), max_tokens=num_tokens)
            layers = engine.session(run).memory.cache.layers
            assert all(layer.layout.num_faded for layer in layers)
            counts.append(len(unpacked))
    assert counts[0] == counts[1] > 0


def test_attention_of_another_kind_gets_unpacked_tokens() -> None:
    llm = tiny_llm()
    llm.model.set_attn_implementation("eager")
    runner = ModelRunner(llm, None)
    assert not runner._attends_to_packed
    with rig(llm) as engine:
        assert engine.ask(long_conversation("Ann"), max_tokens=24).finished.token_ids


def test_layers_hand_out_unpacked_tokens_behind_a_forward(llm: LanguageModel) -> None:
    with rig(llm) as engine:
        run = engine.ask(long_conversation("Ann"), max_tokens=24)
        layers = engine.session(run).memory.cache.layers
        assert not any(layer.hands_out_packed for layer in layers)


def test_an_engine_has_its_kernels_before_it_is_started(
    llm: LanguageModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    rehearsed: list[_Heads] = []
    monkeypatch.setattr(rehearsal, "_rehearse", rehearsed.append)
    engine = Engine(llm, EngineConfig(cache=cache_config(storage_dtype="bfloat16")))
    assert [heads.storage_dtype for heads in rehearsed] == [torch.bfloat16]
    assert not engine.is_working
    Engine(llm, EngineConfig(cache=cache_config(policy="tova")))
    assert len(rehearsed) == 1
