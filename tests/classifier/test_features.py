from __future__ import annotations

import math
from dataclasses import asdict

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memdecay.classifier.features import (
    NUM_POSITION_FEATURES,
    POSITION_FEATURE_NAMES,
    ROLES,
    UNKNOWN_ROLE,
    FeatureLayout,
    position_features,
    role_code,
)
from memdecay.classifier.text import NUM_TEXT_FEATURES


@pytest.mark.parametrize(
    ("role", "name"),
    [
        ("system", "system"),
        ("developer", "system"),
        ("Human", "user"),
        ("gpt", "assistant"),
        ("model", "assistant"),
        (" ai ", "assistant"),
        ("function", "tool"),
        ("observation", "tool"),
        ("ipython", "tool"),
        ("toolResult", "tool"),
        ("get_weather", "other"),
    ],
)
def test_role_aliases_map_to_the_standard_roles(role: str, name: str) -> None:
    assert role_code(role) == ROLES.index(name)


def test_empty_role_is_unknown() -> None:
    assert role_code("") == UNKNOWN_ROLE


def test_features_follow_the_formula() -> None:
    (row,) = position_features([99], [9], [3], [2])
    expected = [math.log(100) / math.log(2**17 + 1), math.log(10) / math.log(2**14 + 1)]
    expected += [math.log(4) / math.log(2**10 + 1), 0, 0, 1, 0, 0, *[0] * NUM_TEXT_FEATURES]
    assert row == pytest.approx(expected, abs=1e-6)
    assert row.dtype == np.float32


def test_text_features_follow_as_they_are() -> None:
    text = np.linspace(0, 1, NUM_TEXT_FEATURES, dtype=np.float32)[None]
    features = position_features([9], [9], [3], [2], text)
    np.testing.assert_array_equal(features[:, -NUM_TEXT_FEATURES:], text)
    np.testing.assert_array_equal(
        features[:, :-NUM_TEXT_FEATURES],
        position_features([9], [9], [3], [2])[:, :-NUM_TEXT_FEATURES],
    )


def test_text_features_of_another_width_are_refused() -> None:
    with pytest.raises(ValueError, match="text must be"):
        position_features([9], [9], [3], [2], np.zeros((1, 3)))


def test_tokens_of_no_message_have_no_role_and_count_as_the_first() -> None:
    features = position_features([0], [0], [-1], [UNKNOWN_ROLE])
    assert not features.any()


def test_no_tokens_give_no_rows() -> None:
    assert position_features([], [], [], []).shape == (0, NUM_POSITION_FEATURES)


@given(
    st.lists(
        st.tuples(
            st.integers(0, 2**17),
            st.integers(0, 2**14),
            st.integers(-1, 2**10),
            st.integers(-1, len(ROLES) - 1),
        ),
        min_size=1,
        max_size=20,
    ),
    st.integers(0, 20),
)
def test_new_tokens_can_be_done_alone(rows: list[tuple[int, int, int, int]], cut: int) -> None:
    columns = np.array(rows).T
    whole = position_features(*columns)
    parts = [position_features(*columns[:, :cut]), position_features(*columns[:, cut:])]
    np.testing.assert_array_equal(whole, np.concatenate(parts))
    assert whole.min() >= 0
    assert whole.max() <= 1


def test_arrays_of_other_lengths_are_refused() -> None:
    with pytest.raises(ValueError, match="one length"):
        position_features([0, 1], [0], [0, 0], [1, 1])


@pytest.mark.parametrize("role", [-2, len(ROLES)])
def test_role_codes_out_of_range_are_refused(role: int) -> None:
    with pytest.raises(ValueError, match="role codes"):
        position_features([0], [0], [0], [role])


def test_layout_survives_plain_data() -> None:
    layout = FeatureLayout(layer=12, hidden_size=576)
    assert FeatureLayout(**asdict(layout)) == layout
    assert layout.num_position_features == len(POSITION_FEATURE_NAMES)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("layer", -1),
        ("hidden_size", 0),
        ("format", 1),
        ("position_names", ("log_position",)),
        ("position_scales", (1.0, 2.0, 3.0)),
        ("position_scales", (1.0,)),
    ],
)
def test_layout_of_other_features_is_refused(field: str, value: object) -> None:
    with pytest.raises(ValueError, match=field):
        FeatureLayout(**({"layer": 1, "hidden_size": 8} | {field: value}))  # type: ignore[arg-type]
