from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from memdecay.runtime.bench.quality.measures import (
    TokenScores,
    kept_benefit,
    mean_scores,
    num_equal,
    token_scores,
)
from memdecay.runtime.bench.quality.row import RecalledSpan, retention
from memdecay.runtime.bench.quality.spans import copied_from_far


def log_probs(seed: int, num_rows: int = 5) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(num_rows, 11, generator=generator).log_softmax(dim=-1)


def test_scores_are_what_torch_says() -> None:
    left, right, targets = log_probs(0), log_probs(1), torch.arange(5)

    scores = token_scores(left, right, targets)

    kl = torch.nn.functional.kl_div(right, left, reduction="none", log_target=True).sum(-1)
    nll = torch.nn.functional.nll_loss
    delta = nll(right, targets, reduction="none") - nll(left, targets, reduction="none")
    np.testing.assert_allclose(scores.kl, kl, rtol=1e-5)
    np.testing.assert_allclose(scores.delta_nll, delta, rtol=1e-5, atol=1e-6)
    assert scores.is_same.tolist() == (left.argmax(-1) == right.argmax(-1)).tolist()


def test_equal_predictions_have_no_divergence() -> None:
    scores = token_scores(log_probs(0), log_probs(0), torch.zeros(5, dtype=torch.int64))

    assert (scores.kl == 0).all()
    assert (scores.delta_nll == 0).all()
    assert scores.is_same.all()


def test_means_are_over_the_chosen_predictions() -> None:
    scores = TokenScores(
        np.array([1.0, 2.0, 6.0]), np.array([0.0, -1.0, 1.0]), np.array([True, False, True])
    )

    some = mean_scores(scores, np.array([False, True, True]))

    assert (some.count, some.kl, some.delta_nll, some.top1) == (2, 4.0, 0.0, 0.5)
    assert mean_scores(scores).kl == pytest.approx(3.0)
    none = mean_scores(scores, np.zeros(3, np.bool_))
    assert none.count == 0
    assert math.isnan(none.kl)


def test_no_parts_join_to_nothing() -> None:
    assert mean_scores(TokenScores.join([])).count == 0


@pytest.mark.parametrize(("nll", "kept"), [(1.0, 1.0), (3.0, 0.5), (5.0, 0.0), (6.0, -0.25)])
def test_kept_benefit(nll: float, kept: float) -> None:
    assert kept_benefit(nll, full=1.0, none=5.0) == pytest.approx(kept)


def test_no_benefit_to_keep_is_nan() -> None:
    assert math.isnan(kept_benefit(1.0, full=2.0, none=2.0))
    assert math.isnan(retention([]))


def test_retention_sums_over_tokens() -> None:
    spans = [
        RecalledSpan("key_decision", "512-2047", 30, 1.0, 1.0, 2.0),
        RecalledSpan("key_decision", "512-2047", 10, 4.0, 1.0, 4.0),
    ]

    assert retention(spans) == pytest.approx((100 - 70) / (100 - 40))


def test_equal_tokens_count_from_the_beginning() -> None:
    assert num_equal([1, 2, 3, 9], [1, 2, 4, 9]) == 2
    assert num_equal([1, 2], [1, 2, 3]) == 2
    assert num_equal([], [1]) == 0


@given(
    st.lists(st.integers(0, 2), max_size=60),
    st.integers(1, 4),
    st.integers(0, 20),
)
def test_copies_are_those_that_a_search_finds(ids: list[int], length: int, distance: int) -> None:
    expected = [False] * len(ids)
    for start in range(len(ids) - length + 1):
        gram = ids[start : start + length]
        earlier = [s for s in range(start) if ids[s : s + length] == gram]
        if earlier and start - max(earlier) > distance:
            expected[start : start + length] = [True] * length

    found = copied_from_far(np.array(ids, np.int64), length, distance)

    assert found.tolist() == expected
