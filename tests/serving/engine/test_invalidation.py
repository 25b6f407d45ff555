"""Sessions on disk are those of one model, classifier, adapter and set of cache settings."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from memdecay.classifier.artifact import load_artifact, save_artifact
from memdecay.classifier.fingerprint import llm_fingerprint
from memdecay.classifier.llm import LanguageModel
from memdecay.classifier.regions import RegionDecay
from memdecay.runtime.config import FadingConfig, LateTaggingConfig
from memdecay.runtime.early_config import EarlyConfig
from memdecay.runtime.foresight.head import ForesightHead
from memdecay.runtime.tagger import RegionTagger
from tests.runtime.artifacts import random_artifact, random_graph, random_inputs
from tests.serving.engine.rig import cache_config, rig, tiny_llm, user


class Adapted(nn.Module):
    """A layer with a low-rank adapter beside it."""

    def __init__(self, layer: nn.Linear, size: float) -> None:
        super().__init__()
        self.base = layer
        self.down = nn.Parameter(torch.full((1, layer.in_features), size), requires_grad=False)
        self.up = nn.Parameter(torch.ones(layer.out_features, 1), requires_grad=False)

    def forward(self, states: torch.Tensor) -> torch.Tensor:
        return self.base(states) + states @ self.down.T @ self.up.T


def with_adapter(size: float) -> LanguageModel:
    llm = tiny_llm()
    attention = llm.model.model.layers[2].self_attn
    attention.q_proj = Adapted(attention.q_proj, size)
    return llm


def with_merged_adapter() -> LanguageModel:
    llm = tiny_llm()
    llm.model.model.layers[2].self_attn.q_proj.weight.data += 0.01
    return llm


def other_classifier(folder: Path, llm: LanguageModel) -> RegionTagger:
    """Return a tagger of the same settings and other weights."""
    card = random_artifact(folder / "one", fingerprint=llm_fingerprint(llm.model)).card
    graph = random_graph()
    with torch.no_grad():
        for parameter in graph.parameters():
            parameter.mul_(1.01)
    save_artifact(folder / "other", graph, card, [random_inputs(2, 9)])
    return RegionTagger(load_artifact(folder / "other"), "cpu")


def sessions_on_disk(llm: LanguageModel, tagger: Any, folder: Path, **cache: Any) -> int:
    """Start on a folder, say how many sessions were found in it, and leave one."""
    with rig(llm, tagger, disk_folder=folder, cache=cache_config(**cache)) as engine:
        num_found = len(engine.core.parts.store)
        engine.ask((user("Hi"),), session_id="s", max_tokens=2)
        engine.core.close()
        return num_found


@pytest.mark.parametrize(
    "other",
    [
        lambda: tiny_llm(seed=1),
        lambda: replace(tiny_llm(), dtype=torch.bfloat16),
        lambda: with_adapter(0.1),
        with_merged_adapter,
    ],
    ids=["weights", "dtype", "adapter", "merged adapter"],
)
def test_sessions_of_another_model_are_not_used(
    llm: LanguageModel, tmp_path: Path, other: Callable[[], LanguageModel]
) -> None:
    assert [sessions_on_disk(llm, None, tmp_path) for _ in range(2)] == [0, 1]
    assert sessions_on_disk(other(), None, tmp_path) == 0
    assert sessions_on_disk(other(), None, tmp_path) == 1


def test_sessions_of_another_adapter_are_not_used(tmp_path: Path) -> None:
    assert sessions_on_disk(with_adapter(0.1), None, tmp_path) == 0
    assert sessions_on_disk(with_adapter(0.2), None, tmp_path) == 0


def test_sessions_of_another_classifier_are_not_used(
    llm: LanguageModel, tagger: RegionTagger, tmp_path: Path
) -> None:
    table = replace(tagger.region_table, key_decision=RegionDecay(7.0, 0.25))
    taggers = (
        tagger,
        other_classifier(tmp_path, llm),
        RegionTagger(tagger.artifact, "cpu", region_table=table),
        None,
    )
    assert [sessions_on_disk(llm, one, tmp_path / "kv") for one in taggers] == [0] * 4


def test_sessions_of_other_settings_are_not_used(llm: LanguageModel, tmp_path: Path) -> None:
    head = ForesightHead(llm_fingerprint(llm.model), (0.0,) * 16, (1.0,) * 16, (0.1,) * 16, 1.0)
    settings: list[dict[str, Any]] = [
        {},
        {"policy": "region"},
        {"low_watermark": 0.8},
        {"foresight": head},
        {"foresight": replace(head, weights=(*head.weights[1:], 0.2))},
        {"fading": FadingConfig(steps=(4,))},
        {"late_tagging": LateTaggingConfig(max_share=0.01)},
        {"early": EarlyConfig(watermark=0.5)},
    ]
    assert [sessions_on_disk(llm, None, tmp_path, **one) for one in settings] == [0] * 8
