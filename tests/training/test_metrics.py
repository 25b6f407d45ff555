import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import accuracy_score, confusion_matrix, f1_score

from memdecay.classifier.regions import NUM_REGIONS, REGION_LABELS
from memdecay.training.metrics import fit_temperature, region_metrics


def random_case(tokens: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    probs = torch.randn(tokens, NUM_REGIONS, generator=generator).softmax(dim=-1)
    return probs, torch.randint(NUM_REGIONS, (tokens,), generator=generator)


def plain_ece(probs: np.ndarray, labels: np.ndarray, bins: int = 15) -> float:
    confidence, predicted = probs.max(axis=1), probs.argmax(axis=1)
    total = 0.0
    for low in np.arange(bins) / bins:
        inside = (confidence > low) & (confidence <= low + 1 / bins)
        if inside.any():
            gap = abs(confidence[inside].mean() - (predicted[inside] == labels[inside]).mean())
            total += inside.mean() * gap
    return total


@settings(deadline=None, max_examples=30)
@given(tokens=st.integers(20, 300), seed=st.integers(0, 10_000))
def test_metrics_equal_scikit_learn(tokens: int, seed: int) -> None:
    probs, labels = random_case(tokens, seed)
    metrics = region_metrics(probs, labels)
    truth, predicted = labels.numpy(), probs.argmax(dim=-1).numpy()
    assert metrics.macro_f1 == pytest.approx(f1_score(truth, predicted, average="macro"))
    assert metrics.accuracy == pytest.approx(accuracy_score(truth, predicted))
    expected = confusion_matrix(truth, predicted, labels=range(NUM_REGIONS))
    assert np.array_equal(np.array(metrics.confusion), expected)
    assert metrics.ece == pytest.approx(plain_ece(probs.numpy(), truth), abs=1e-4)
    assert metrics.tokens == tokens


def test_region_that_never_occurs_does_not_lower_macro_f1() -> None:
    labels = torch.tensor([0, 1, 2, 0])
    probs = torch.nn.functional.one_hot(labels, NUM_REGIONS).float()
    assert region_metrics(probs, labels).macro_f1 == 1.0


def test_per_region_is_keyed_by_name() -> None:
    metrics = region_metrics(*random_case(50, 0))
    assert tuple(metrics.per_region) == REGION_LABELS
    assert sum(row["support"] for row in metrics.per_region.values()) == 50


def test_no_tokens_are_refused() -> None:
    with pytest.raises(ValueError, match="at least one labelled token"):
        region_metrics(torch.zeros(0, NUM_REGIONS), torch.zeros(0, dtype=torch.int64))


def test_wrong_shape_is_refused() -> None:
    with pytest.raises(ValueError, match=r"must have shape \(3, 5\), got \(3, 4\)"):
        region_metrics(torch.zeros(3, 4), torch.zeros(3, dtype=torch.int64))


@pytest.mark.parametrize("true_temperature", [0.5, 1.0, 3.0])
def test_temperature_is_found_again(true_temperature: float) -> None:
    generator = torch.Generator().manual_seed(0)
    logits = 2 * torch.randn(20_000, NUM_REGIONS, generator=generator)
    labels = torch.multinomial(logits.softmax(dim=-1), 1, generator=generator).squeeze(1)
    assert fit_temperature(logits * true_temperature, labels) == pytest.approx(
        true_temperature, rel=0.05
    )


def test_temperature_lies_at_the_lowest_loss() -> None:
    generator = torch.Generator().manual_seed(1)
    logits = 4 * torch.randn(500, NUM_REGIONS, generator=generator)
    labels = (logits + 6 * torch.randn(500, NUM_REGIONS, generator=generator)).argmax(dim=-1)
    found = fit_temperature(logits, labels)
    grid = torch.exp(torch.linspace(-2, 3, 400))
    losses = [torch.nn.functional.cross_entropy(logits / value, labels).item() for value in grid]
    best = torch.nn.functional.cross_entropy(logits / found, labels).item()
    assert best <= min(losses) + 1e-6
    assert losses[0] > best < losses[-1]


def test_temperature_without_tokens_is_one() -> None:
    assert fit_temperature(torch.zeros(0, 5), torch.zeros(0, dtype=torch.int64)) == 1.0
