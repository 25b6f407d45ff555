from __future__ import annotations

import numpy as np
import pytest
import torch
from transformers import DynamicCache

from memdecay.runtime.attention_mass import attention_probs
from memdecay.runtime.bench.caches.headwise import HeadwiseRunner
from memdecay.runtime.bench.caches.headwise_methods import HEADWISE
from memdecay.runtime.config import CacheConfig
from memdecay.runtime.transcript import TokenTable
from tests.tiny import tiny_language_model

CONFIG = CacheConfig(40, low_watermark=0.75, num_sinks=2, num_recent=6)


def table(ids: torch.Tensor) -> TokenTable:
    flat = ids.numpy().astype(np.int64)
    return TokenTable(flat, *(np.zeros(len(flat), kind) for kind in (np.int32, np.int32, np.int8)))


def random_ids(num_tokens: int) -> torch.Tensor:
    return torch.randint(3, 384, (num_tokens,), generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("name", HEADWISE)
def test_logits_are_those_of_a_full_cache_with_a_mask_for_each_head(name: str) -> None:
    # One layer: the mask that a model takes is the same for all layers, but not for all heads.
    llm = tiny_language_model(num_layers=1, initializer_range=0.3)
    runner = HeadwiseRunner(llm, HEADWISE[name], CONFIG)
    ids = random_ids(95)
    full = DynamicCache(config=llm.model.config)

    with runner.attached():
        for start in range(0, 95, 10):
            new = ids[start : start + 10]
            end = start + len(new)
            layer = runner._layers[0]
            ours = runner.run(table(new))
            # What was held in this forward: what `run` left of the past, and the new tokens.
            held = layer.positions_in_forward
            shown = torch.zeros(1, 2, end, dtype=torch.bool).scatter_(2, held, value=True)
            causal = torch.arange(end) <= torch.arange(start, end).unsqueeze(1)
            visible = shown.repeat_interleave(2, dim=1)[:, :, None] & causal
            mask = torch.where(visible, 0.0, torch.finfo(torch.float32).min)
            with torch.no_grad():
                theirs = llm.model(
                    new[None],
                    attention_mask=mask,
                    position_ids=torch.arange(start, end)[None],
                    cache=full,
                ).logits[0]
            torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-4)
            assert layer.num_kept <= CONFIG.budget_tokens
    first, second = layer.positions_in_forward[0]
    assert (first.tolist() == second.tolist()) == (name == "tova-per-layer")
    assert {0, 1} <= set(first.tolist())


@pytest.mark.parametrize("name", ["snapkv-per-head", "tova-per-layer", "h2o-per-head"])
def test_observing_is_what_its_definition_says(name: str) -> None:
    method = HEADWISE[name]
    generator = torch.Generator().manual_seed(0)
    query = torch.randn(1, 4, 50, 8, generator=generator)
    key = torch.randn(1, 2, 50, 8, generator=generator)
    probs, _ = attention_probs(query, key, None)

    found = method.observe(torch.zeros(1, 2, 50), probs)

    grouped = probs.view(1, 2, 2, 50, 50).mean(dim=2)
    expected = {
        "snapkv-per-head": grouped[:, :, -32:].mean(dim=2),
        "tova-per-layer": probs[:, :, -1].mean(dim=1, keepdim=True).expand(1, 2, 50),
        "h2o-per-head": grouped.sum(dim=2),
    }[name]
    torch.testing.assert_close(found, expected)


def test_fork_leaves_the_original_as_it_was() -> None:
    llm = tiny_language_model(num_layers=2)
    runner = HeadwiseRunner(llm, HEADWISE["h2o-per-head"], CONFIG)
    ids = random_ids(60)
    with runner.attached():
        for start in range(0, 40, 10):
            runner.run(table(ids[start : start + 10]))
        fork = runner.fork()
        with fork.attached():
            first = fork.run(table(ids[40:50]))
            fork.run(table(ids[50:60]))
        again = runner.run(table(ids[40:50]))

    torch.testing.assert_close(first, again)
