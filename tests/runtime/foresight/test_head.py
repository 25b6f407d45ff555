"""The foresight head, its file, and what it reads."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from memdecay.classifier.errors import ArtifactError
from memdecay.runtime.foresight.head import MOST_DEVIATION, ForesightHead
from memdecay.runtime.foresight.head_file import load_head, save_head
from memdecay.runtime.foresight.norms import log_norms
from memdecay.runtime.precision.rotary import RotaryFrequencies

HEAD = ForesightHead("ab12", (0.0, 1.0), (1.0, 2.0), (0.5, -1.0), 0.3, "a test")
numbers = st.floats(-50, 50, allow_nan=False)


def test_norms_are_those_of_each_head_layer_by_layer() -> None:
    layers = [(torch.randn(2, 3, 5, 8), torch.randn(2, 3, 5, 4)) for _ in range(2)]
    norms = log_norms(layers)
    assert norms.shape == (2, 5, 12)
    # Second layer, third head's value of the first row's fourth token.
    expected = math.log(sum(float(x) ** 2 for x in layers[1][1][0, 2, 3]) ** 0.5)
    assert norms[0, 3, 6 + 3 + 2].item() == pytest.approx(expected, abs=1e-5)


def test_norms_do_not_depend_on_where_a_token_stands() -> None:
    keys = torch.randn(1, 2, 6, 8)
    frequencies = RotaryFrequencies(torch.tensor([1.0, 0.3, 0.1, 0.03]))
    turned = frequencies.rotation(torch.arange(100, 106)[None]).turn(keys)
    values = torch.randn(1, 2, 6, 8)
    torch.testing.assert_close(log_norms([(turned, values)]), log_norms([(keys, values)]))


def test_a_key_of_zeros_has_a_finite_norm() -> None:
    zeros = torch.zeros(1, 1, 2, 8)
    assert log_norms([(zeros, zeros)]).isfinite().all()


def test_norms_need_a_layer() -> None:
    with pytest.raises(ValueError, match="one layer or more"):
        log_norms([])


@given(st.lists(st.tuples(numbers, numbers), min_size=1, max_size=4))
def test_foresight_is_the_weighted_sum_of_bounded_deviations(
    rows: list[tuple[float, float]],
) -> None:
    foreseen = HEAD.foresee(torch.tensor([rows]))
    for (first, second), got in zip(rows, foreseen[0].tolist(), strict=True):
        deviations = (
            max(-MOST_DEVIATION, min(MOST_DEVIATION, first)),
            max(-MOST_DEVIATION, min(MOST_DEVIATION, (second - 1) / 2)),
        )
        assert got == pytest.approx(0.5 * deviations[0] - deviations[1], abs=1e-4)


def test_a_head_for_another_model_is_refused() -> None:
    with pytest.raises(ValueError, match=r"reads 2 norms of a token, the model has 3"):
        HEAD.foresee(torch.zeros(1, 4, 3))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"mean": (0.0,)}, "equally long"),
        ({"weights": (math.nan, 0.0)}, "finite"),
        ({"scale": (1.0, 0.0)}, "scale must be above 0"),
        ({"attention_weight": -0.1}, "attention_weight must be 0 or above"),
    ],
)
def test_impossible_heads_are_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        replace(HEAD, **change)


def test_a_saved_head_comes_back(tmp_path: Path) -> None:
    save_head(tmp_path / "head.json", HEAD)
    assert load_head(tmp_path / "head.json") == HEAD


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "is not a JSON file"),
        ("[]", "expected a JSON object"),
        ('{"version": 2}', "expected version 1"),
        ('{"version": 1, "model": "x"}', "is not a foresight head"),
        (json.dumps({"version": 1, "colour": "red"}), "unknown key 'colour'"),
    ],
)
def test_a_file_that_is_no_head_is_refused_by_name(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "head.json"
    path.write_text(text)
    with pytest.raises(ArtifactError, match=message) as error:
        load_head(path)
    assert str(path) in str(error.value)
    assert "memdecay foresee" in str(error.value)


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ArtifactError, match="can't be read"):
        load_head(tmp_path / "none.json")
