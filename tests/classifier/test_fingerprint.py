from __future__ import annotations

import time

import pytest
import torch

from memdecay.classifier.fingerprint import FINGERPRINT_LENGTH, llm_fingerprint
from tests.tiny import tiny_llama


def test_same_model_agrees_in_float32_and_bfloat16() -> None:
    fingerprint = llm_fingerprint(tiny_llama())
    assert fingerprint == llm_fingerprint(tiny_llama().to(torch.bfloat16))
    assert len(fingerprint) == FINGERPRINT_LENGTH


def test_other_weights_differ() -> None:
    assert llm_fingerprint(tiny_llama(seed=0)) != llm_fingerprint(tiny_llama(seed=1))


def test_fine_tuned_model_differs() -> None:
    model = tiny_llama()
    before = llm_fingerprint(model)
    with torch.no_grad():
        weight = model.model.layers[2].mlp.down_proj.weight
        weight += 0.01 * torch.randn(weight.shape, generator=torch.Generator().manual_seed(0))
    assert llm_fingerprint(model) != before


@pytest.mark.parametrize(
    "change",
    [
        {"num_key_value_heads": 4},
        {"num_layers": 3},
        {"rope_parameters": {"rope_type": "default", "rope_theta": 5e5}},
    ],
)
def test_other_architecture_differs(change: dict[str, object]) -> None:
    other = tiny_llama(**change)  # type: ignore[arg-type]
    assert llm_fingerprint(tiny_llama()) != llm_fingerprint(other)


def test_it_is_cheap() -> None:
    model = tiny_llama(hidden_size=256, num_layers=8)
    start = time.perf_counter()
    llm_fingerprint(model)
    assert time.perf_counter() - start < 1


def test_weights_that_are_not_here_are_passed_over() -> None:
    assert llm_fingerprint(tiny_llama().to("meta")) != llm_fingerprint(tiny_llama())
