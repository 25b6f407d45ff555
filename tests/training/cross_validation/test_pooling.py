from pathlib import Path

import numpy as np
import pytest
import torch

from memdecay.classifier.regions import NUM_REGIONS
from memdecay.training.cross_validation.pooling import pool_folds
from memdecay.training.cross_validation.predictions import FoldPredictions, read_predictions
from memdecay.training.metrics import fit_temperature


def make_predictions(traces: list[int], seed: int, scale: float = 1.0) -> FoldPredictions:
    """Return predictions that are right often, and too sure by the scale."""
    generator = np.random.default_rng(seed)
    trace = np.repeat(traces, 40).astype(np.int64)
    labels = generator.integers(0, NUM_REGIONS, len(trace))
    logits = generator.normal(size=(len(trace), NUM_REGIONS))
    logits[np.arange(len(trace)), labels] += 1.5
    probs = generator.dirichlet(np.ones(NUM_REGIONS), len(trace))
    return FoldPredictions(
        logits=(scale * logits).astype(np.float32),
        logits_alone=logits[:, ::-1].astype(np.float32),
        position_probs=probs.astype(np.float32),
        labels=labels,
        trace=trace,
        temperature=1.5,
        num_epochs=3,
        fingerprint="abc",
    )


def test_pooled_tokens_stand_in_the_order_of_their_traces() -> None:
    first, second = make_predictions([1, 4], 0), make_predictions([0, 3], 1)
    pooled = pool_folds([first, second])
    assert (np.diff(pooled.trace) >= 0).all()
    for index, fold in enumerate((first, second)):
        rows = pooled.fold == index
        np.testing.assert_array_equal(pooled.logits[rows], fold.logits)
        np.testing.assert_array_equal(pooled.logits_alone[rows], fold.logits_alone)
        np.testing.assert_array_equal(pooled.labels[rows], fold.labels)
        np.testing.assert_array_equal(pooled.position_probs[rows], fold.position_probs)


def test_crossed_temperature_is_fitted_to_the_other_folds_alone() -> None:
    folds = [make_predictions([0], 0, 3.0), make_predictions([1], 1), make_predictions([2], 2)]
    found = pool_folds(folds).crossed_temperatures
    logits = torch.from_numpy(np.concatenate([folds[1].logits, folds[2].logits]))
    labels = torch.from_numpy(np.concatenate([folds[1].labels, folds[2].labels]))
    assert found[0] == pytest.approx(fit_temperature(logits, labels))
    # The sure fold is among the others of the second and the third only.
    assert found[0] < min(found[1], found[2])


def test_temperatures_divide_the_logits_of_their_fold() -> None:
    pooled = pool_folds([make_predictions([0], 0), make_predictions([1], 1)])
    tokens = pooled.tokens(np.array([1.0, 2.0]))
    expected = torch.from_numpy(pooled.logits).clone()
    expected[pooled.fold == 1] /= 2
    np.testing.assert_allclose(
        tokens.region_probs, torch.softmax(expected, dim=1).numpy(), rtol=1e-5
    )


def test_tokens_alone_go_by_what_was_learned_without_the_rules() -> None:
    pooled = pool_folds([make_predictions([0], 0), make_predictions([1], 1)])
    np.testing.assert_array_equal(
        pooled.tokens_alone().predicted, pooled.logits_alone.argmax(axis=1)
    )


def test_a_single_fold_has_no_others_to_cross_with() -> None:
    pooled = pool_folds([make_predictions([0], 0)])
    assert pooled.crossed_temperatures[0] == pytest.approx(pooled.pooled_temperature)


def test_no_folds_are_refused() -> None:
    with pytest.raises(ValueError, match="at least one fold"):
        pool_folds([])


def test_predictions_come_back_as_written(tmp_path: Path) -> None:
    written = make_predictions([0, 2], 0)
    written.write(tmp_path / "predictions.npz")
    read = read_predictions(tmp_path / "predictions.npz", "abc")
    assert read is not None
    np.testing.assert_array_equal(read.logits, written.logits)
    np.testing.assert_array_equal(read.trace, written.trace)
    assert (read.temperature, read.num_epochs) == (1.5, 3)
    assert isinstance(read.num_epochs, int)


@pytest.mark.parametrize("content", [None, b"", b"junk", b"PK\x03\x04 cut off"])
def test_missing_or_damaged_predictions_are_none(content: bytes | None, tmp_path: Path) -> None:
    path = tmp_path / "predictions.npz"
    if content is not None:
        path.write_bytes(content)
    assert read_predictions(path, "abc") is None


def test_predictions_of_another_run_are_none(tmp_path: Path) -> None:
    make_predictions([0], 0).write(tmp_path / "predictions.npz")
    assert read_predictions(tmp_path / "predictions.npz", "abd") is None
