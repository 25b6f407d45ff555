"""Figures from sums agree with scikit-learn and torchmetrics on the tokens themselves."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import (
    accuracy_score,
    brier_score_loss,
    f1_score,
    log_loss,
    precision_recall_fscore_support,
)
from torchmetrics.functional.classification import (
    binary_calibration_error,
    multiclass_calibration_error,
)

from memdecay.classifier.regions import NUM_REGIONS
from memdecay.training.calibration import scores
from memdecay.training.calibration.sums import NUM_BINS, region_slots, trace_sums
from memdecay.training.calibration.tokens import (
    TaggedTokens,
    logits_of,
    without_temperature,
)
from tests.training.calibration.samples import calibrated_tokens

TOKENS = calibrated_tokens(seed=3, sharpness=1.7)
SUMS = trace_sums(TOKENS)
TOTAL = SUMS.total()


def test_region_scores_agree_with_scikit_learn() -> None:
    expected = precision_recall_fscore_support(TOKENS.labels, TOKENS.predicted)
    np.testing.assert_allclose(scores.precision(TOTAL.confusion), expected[0])
    np.testing.assert_allclose(scores.recall(TOTAL.confusion), expected[1])
    np.testing.assert_allclose(scores.f1(TOTAL.confusion), expected[2])
    np.testing.assert_allclose(
        scores.macro_f1(TOTAL.confusion),
        f1_score(TOKENS.labels, TOKENS.predicted, average="macro"),
    )
    np.testing.assert_allclose(
        scores.accuracy(TOTAL.confusion), accuracy_score(TOKENS.labels, TOKENS.predicted)
    )


def test_probability_scores_agree_with_scikit_learn() -> None:
    probs = TOKENS.region_probs.astype(np.float64)
    probs /= probs.sum(axis=1, keepdims=True)
    classes = list(range(NUM_REGIONS))
    brier = brier_score_loss(TOKENS.labels, probs, labels=classes, scale_by_half=False)
    assert scores.mean_brier(TOTAL) == pytest.approx(brier, abs=1e-6)
    nll = log_loss(TOKENS.labels, np.maximum(probs, 1e-12), labels=classes)
    assert scores.mean_nll(TOTAL) == pytest.approx(nll, abs=1e-5)


@pytest.mark.parametrize("sharpness", [1.0, 2.0, 60.0])
def test_calibration_errors_agree_with_torchmetrics(sharpness: float) -> None:
    # At the highest sharpness many confidences are exactly one in float32.
    tokens = calibrated_tokens(seed=1, sharpness=sharpness)
    probs, labels = torch.from_numpy(tokens.region_probs), torch.from_numpy(tokens.labels)
    expected = multiclass_calibration_error(probs, labels, NUM_REGIONS, n_bins=NUM_BINS)
    found = scores.calibration_error(trace_sums(tokens).total().slots)
    assert found == pytest.approx(float(expected), abs=1e-5)
    by_region = [
        float(binary_calibration_error(column, (labels == i).int(), n_bins=NUM_BINS))
        for i, column in enumerate(probs.T.contiguous())
    ]
    classwise = scores.classwise_error(region_slots(tokens).sum(axis=0))
    assert classwise == pytest.approx(np.mean(by_region), abs=1e-5)


def test_overconfidence_gives_positive_gaps() -> None:
    honest = scores.confidence_gap(trace_sums(calibrated_tokens(60, seed=5)).total())
    boastful = scores.confidence_gap(
        trace_sums(calibrated_tokens(60, seed=5, sharpness=3.0)).total()
    )
    assert np.abs(honest).max() < 0.06
    assert boastful.min() > 0.1


def test_region_that_never_occurs_has_no_score() -> None:
    kept = TOKENS.where((TOKENS.labels != 2) & (TOKENS.predicted != 2))
    total = trace_sums(kept).total()
    assert np.isnan(scores.f1(total.confusion)[2])
    assert np.isnan(scores.confidence_gap(total)[2])
    present = [label for label in range(NUM_REGIONS) if label != 2]
    expected = f1_score(kept.labels, kept.predicted, average="macro", labels=present)
    assert scores.macro_f1(total.confusion) == pytest.approx(expected)


@given(st.lists(st.integers(0, 3), min_size=20, max_size=20).filter(any))
def test_weights_mean_repeated_traces(weights: list[int]) -> None:
    parts = [TOKENS.where(TOKENS.trace == i) for i, n in enumerate(weights) for _ in range(n)]
    repeated = TaggedTokens(
        **{
            name: np.concatenate([getattr(part, name) for part in parts])
            for name in ("region_probs", "labels", "trace", "message", "position")
        }
    )
    weighted = SUMS.weighted(np.array([weights], np.float64)).rows(0)
    expected = trace_sums(repeated).total()
    np.testing.assert_allclose(weighted.confusion, expected.confusion)
    np.testing.assert_allclose(weighted.slots, expected.slots)
    np.testing.assert_allclose(weighted.nll, expected.nll)


@given(st.floats(0.2, 5.0), st.integers(0, 1000))
def test_undoing_the_temperature_gives_the_softmax_of_the_logits(
    temperature: float, seed: int
) -> None:
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn(7, NUM_REGIONS, generator=generator)
    divided = torch.softmax(logits / temperature, dim=-1).numpy()
    found = without_temperature(divided, temperature)
    np.testing.assert_allclose(found, torch.softmax(logits, dim=-1).numpy(), atol=2e-5)


def test_certain_tokens_keep_finite_logits() -> None:
    certain = np.eye(NUM_REGIONS, dtype=np.float32)
    assert np.isfinite(logits_of(certain)).all()
    np.testing.assert_allclose(without_temperature(certain, 0.5), certain, atol=1e-6)


def test_tokens_refuse_arrays_of_other_lengths() -> None:
    with pytest.raises(ValueError, match="region_probs must have shape"):
        TaggedTokens(
            TOKENS.region_probs[:3], TOKENS.labels, TOKENS.trace, TOKENS.message, TOKENS.position
        )
    with pytest.raises(ValueError, match="position must have"):
        TaggedTokens(
            TOKENS.region_probs, TOKENS.labels, TOKENS.trace, TOKENS.message, TOKENS.position[1:]
        )
