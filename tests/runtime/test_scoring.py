from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from memdecay.classifier.regions import RegionTable
from memdecay.runtime.config import FeedbackConfig
from memdecay.runtime.metadata import Slots
from memdecay.runtime.policies import MemdecayPolicy
from memdecay.runtime.scoring import (
    adapted_decay,
    decayed_score,
    log_decayed_score,
    visited_decay,
)

positive = st.floats(0.01, 1000)
decays = st.floats(0, 0.1)
ages = st.integers(0, 5000)


def column(*values: float) -> torch.Tensor:
    return torch.tensor([values], dtype=torch.float64)


@given(positive, decays, ages)
def test_score_follows_the_formula(importance: float, decay: float, age: int) -> None:
    score = decayed_score(column(importance), column(decay), torch.tensor([[age]]))

    assert score.item() == pytest.approx(importance * math.exp(-decay * age))


@given(positive, decays, ages)
def test_log_score_is_the_logarithm(importance: float, decay: float, age: int) -> None:
    score = log_decayed_score(column(importance), column(decay), torch.tensor([[age]]))

    assert score.item() == pytest.approx(math.log(importance) - decay * age, abs=1e-9)


def test_score_halves_after_a_half_life() -> None:
    half_life = 512
    decay = column(math.log(2) / half_life)

    score = decayed_score(column(10.0), decay, torch.tensor([[half_life]]))

    assert score.item() == pytest.approx(5.0)


def test_zero_decay_never_fades() -> None:
    score = decayed_score(column(100.0), column(0.0), torch.tensor([[10**9]]))

    assert score.item() == 100.0


def test_log_score_ranks_tokens_whose_score_underflows() -> None:
    importance, decay = torch.ones(1, 2), torch.full((1, 2), 0.01)
    age = torch.tensor([[200_000, 100_000]])

    assert decayed_score(importance, decay, age).tolist() == [[0.0, 0.0]]
    assert log_decayed_score(importance, decay, age).argmax().item() == 1


@given(decays, st.floats(0, 100), st.floats(0, 10))
def test_visits_slow_a_tokens_decay(decay: float, attention: float, strength: float) -> None:
    slowed = visited_decay(column(decay), column(attention), strength).item()
    assert 0 <= slowed <= decay
    assert slowed == pytest.approx(decay / (1 + strength * attention))


@given(decays, st.floats(1, 4096), st.floats(0, 2))
def test_a_flood_of_tokens_slows_decay(decay: float, rate: float, strength: float) -> None:
    slowed = adapted_decay(column(decay), torch.tensor(rate), 32.0, strength).item()
    assert 0 <= slowed <= decay
    assert slowed == pytest.approx(decay * min(1, 32 / rate) ** strength, rel=1e-4)


def test_nothing_is_slowed_without_strength() -> None:
    decay = column(0.01, 0.5)
    assert visited_decay(decay, column(3.0, 9.0), 0.0).equal(decay)
    assert adapted_decay(decay, torch.tensor(4096.0), 32.0, 0.0).equal(decay)


def test_the_rate_follows_what_forwards_bring() -> None:
    slots = Slots.empty(1, torch.device("cpu"))
    for _ in range(64):
        slots = slots.append(1, RegionTable())
    assert slots.tokens_per_forward.item() == pytest.approx(1.0)
    for _ in range(40):
        slots = slots.append(256, RegionTable())
    assert slots.tokens_per_forward.item() == pytest.approx(256.0, rel=0.01)


def test_the_policy_uses_both() -> None:
    slots = Slots.empty(1, torch.device("cpu")).append(4000, RegionTable())
    slots = slots.with_attention(torch.ones(1, 4000), 1.0)

    def oldest(**feedback: float) -> float:
        policy = MemdecayPolicy(FeedbackConfig(prior_weight=1.0, **feedback))
        return policy.score(slots, ())[0, 0].item()

    assert oldest() < oldest(visit_strength=1.0)
    assert oldest() < oldest(rate_strength=0.5)
