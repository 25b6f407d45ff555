from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memdecay.runtime.bench.report.statistics import (
    geometric_mean,
    iso_quality,
    mean_interval,
    ratio_interval,
    retention_interval,
)

positive = st.floats(1e-6, 1e3)


def test_mean_interval_leaves_nan_out_and_holds_the_mean() -> None:
    interval = mean_interval([1.0, 2.0, math.nan, 6.0])

    assert interval.value == pytest.approx(3.0)
    assert interval.low <= interval.value <= interval.high
    assert interval.low >= 1.0
    assert interval.high <= 6.0


def test_nothing_gives_nan() -> None:
    assert math.isnan(mean_interval([math.nan]).value)
    assert math.isnan(ratio_interval([], []).low)
    assert math.isnan(geometric_mean([]))


@given(st.lists(positive, min_size=1, max_size=12), st.floats(0.01, 100))
def test_constant_ratio_has_no_spread(values: list[float], ratio: float) -> None:
    interval = ratio_interval([ratio * value for value in values], values)

    assert interval.value == pytest.approx(ratio, rel=1e-5)
    assert interval.low == pytest.approx(ratio, rel=1e-5)
    assert interval.high == pytest.approx(ratio, rel=1e-5)


def test_ratio_pairs_traces() -> None:
    interval = ratio_interval([1.0, math.nan, 8.0], [2.0, 3.0, 2.0])

    assert interval.value == pytest.approx(math.sqrt(0.5 * 4.0))


def test_bootstrap_covers_about_as_often_as_it_says() -> None:
    rng = np.random.default_rng(1)
    hits = 0
    for _ in range(100):
        interval = mean_interval(rng.normal(2.0, 1.0, 20).tolist())
        hits += interval.low <= 2.0 <= interval.high

    assert 85 <= hits <= 99


def test_retention_weighs_traces_by_what_context_brings() -> None:
    # Context brings 10 in one trace, of which all is kept, and 2 in the other, of which none is.
    interval = retention_interval(np.array([[1.0, 1.0, 11.0], [5.0, 3.0, 5.0]]))

    assert interval.value == pytest.approx(10 / 12)
    assert math.isnan(retention_interval(np.array([[1.0, 2.0, 1.0]])).value)


@pytest.mark.parametrize(
    ("kl", "share", "bound"),
    [
        ([0.4, 0.1, 0.025], 0.354, "="),
        ([0.05, 0.01, 0.001], 0.125, "<="),
        ([0.4, 0.3, 0.2], 0.5, ">"),
        ([0.4, 0.2, 0.0], 0.263, "="),
    ],
)
def test_memory_at_equal_quality(kl: list[float], share: float, bound: str) -> None:
    found = iso_quality([0.125, 0.25, 0.5], kl, 0.05)

    assert found.bound == bound
    assert found.share == pytest.approx(share, abs=0.005)
