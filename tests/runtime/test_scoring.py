from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from memdecay.runtime.scoring import decayed_score, log_decayed_score

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
