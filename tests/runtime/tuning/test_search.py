"""The search finds the bottom of a bowl within its bounds and few evaluations."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memdecay.runtime.tuning.search import Vector, coordinate_search

LOW, HIGH = np.full(3, -4.0), np.full(3, 4.0)


@given(bottom=st.tuples(*[st.floats(-3, 3)] * 3))
def test_the_bottom_of_a_bowl_is_found(bottom: tuple[float, float, float]) -> None:
    found = coordinate_search(
        lambda vector: float(np.square(vector - bottom).sum()), np.zeros(3), LOW, HIGH, 200
    )

    assert found.is_finished
    np.testing.assert_allclose(found.vector, bottom, atol=0.15)


def test_no_place_is_evaluated_twice_and_the_most_is_kept_to() -> None:
    seen: list[tuple[float, ...]] = []

    def slope(vector: Vector) -> float:
        seen.append(tuple(vector.tolist()))
        return -float(vector.sum())

    found = coordinate_search(slope, np.zeros(3), LOW, HIGH, 9)

    assert len(seen) == len(set(seen)) == found.num_evaluations == 9
    assert not found.is_finished
    assert found.value == min(-sum(place) for place in seen)


def test_bounds_are_kept() -> None:
    found = coordinate_search(lambda vector: -float(vector.sum()), np.zeros(3), LOW, HIGH, 200)
    assert found.vector.tolist() == HIGH.tolist()


def test_gains_below_noise_lead_nowhere() -> None:
    found = coordinate_search(
        lambda vector: -1e-4 * float(vector.sum()), np.zeros(3), LOW, HIGH, 200
    )
    assert found.vector.tolist() == [0.0, 0.0, 0.0]


def test_no_evaluations_are_refused() -> None:
    with pytest.raises(ValueError, match="max_evaluations must be 1 or more, got 0"):
        coordinate_search(lambda _: 0.0, np.zeros(3), LOW, HIGH, 0)
