"""What tokens looked like and what became of them, against eager attention."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from memdecay.classifier.llm import LanguageModel
from memdecay.runtime.foresight.fit import fit_head
from memdecay.runtime.foresight.samples import Samples, SamplingConfig, gather_samples
from tests.tiny import tiny_language_model

CONFIG = SamplingConfig(
    chunk_tokens=8, future_chunks=2, min_past=24, num_sinks=2, num_recent=6, tokens_per_moment=1000
)


@pytest.fixture(scope="module")
def llm() -> LanguageModel:
    return tiny_language_model(initializer_range=0.3)


def token_ids(num_tokens: int, seed: int = 3) -> NDArray[np.int64]:
    return np.random.default_rng(seed).integers(3, 384, num_tokens)


def test_use_is_the_attention_that_the_next_tokens_paid(llm: LanguageModel) -> None:
    ids = token_ids(40)
    samples = gather_samples(llm, ids, CONFIG)
    llm.model.set_attn_implementation("eager")
    try:
        with torch.no_grad():
            output = llm.model(torch.from_numpy(ids[None]), output_attentions=True)
    finally:
        llm.model.set_attn_implementation("sdpa")
    shares = torch.stack([each[0] for each in output.attentions])  # (layers, heads, n, n)
    paid = shares[:, :, 24:40, 2:18].double().square().mean(dim=(0, 1, 2)).sqrt().log()
    assert samples is not None
    np.testing.assert_allclose(samples.use, (paid - paid.mean()).numpy(), atol=1e-4)


def test_norms_and_past_attention_are_those_of_the_cache(llm: LanguageModel) -> None:
    ids = token_ids(40)
    samples = gather_samples(llm, ids, CONFIG)
    with torch.no_grad():
        cache = llm.model(torch.from_numpy(ids[None]), use_cache=True).cache
    assert samples is not None
    assert samples.norms.shape == (16, 2 * 4 * 2)
    expected = cache.layers[1].values[0, 1, 2:18].norm(dim=-1).log()
    np.testing.assert_allclose(samples.norms[:, 4 + 2 + 1], expected.numpy(), atol=1e-4)
    assert samples.attention.mean() == pytest.approx(0, abs=1e-5)
    assert samples.attention.std() > 0


def test_each_moment_with_a_whole_future_gives_tokens(llm: LanguageModel) -> None:
    samples = gather_samples(llm, token_ids(24 + 16 + 16 + 8), CONFIG)
    assert samples is not None
    assert len(samples) == (24 - 8) + (40 - 8)


def test_a_sequence_without_a_future_gives_none(llm: LanguageModel) -> None:
    assert gather_samples(llm, token_ids(39), CONFIG) is None


def test_progress_adds_up_to_all_tokens(llm: LanguageModel) -> None:
    done: list[int] = []
    gather_samples(llm, token_ids(45), CONFIG, done.append)
    assert sum(done) == 45


@pytest.mark.parametrize(
    "name", ["chunk_tokens", "future_chunks", "tokens_per_moment", "num_sinks", "num_recent"]
)
def test_settings_out_of_range_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match=name):
        SamplingConfig(**{name: -1})


def test_a_past_that_is_all_protected_is_refused() -> None:
    with pytest.raises(ValueError, match="min_past"):
        SamplingConfig(min_past=132)


def made_up(seed: int, weights: NDArray[np.float64], num_tokens: int = 400) -> Samples:
    """Return samples whose use follows norms and attention by known weights, with some noise."""
    random = np.random.default_rng(seed)
    norms = random.normal(2.0, 3.0, (num_tokens, weights.size))
    attention = random.normal(size=num_tokens)
    use = (norms - 2.0) / 3.0 @ weights + 0.4 * attention + random.normal(0, 0.1, num_tokens)
    return Samples(norms.astype(np.float32), attention.astype(np.float32), use.astype(np.float32))


def test_the_fit_finds_the_weights_that_made_the_data() -> None:
    weights = np.array([0.8, -0.5, 0.0, 0.2])
    sequences = [made_up(seed, weights, 4000) for seed in range(3)]
    fit = fit_head(sequences, ["a", "b", "c"], "model", "a test")
    np.testing.assert_allclose(fit.head.weights, weights, atol=0.06)
    assert fit.head.attention_weight == pytest.approx(0.4, abs=0.02)
    assert fit.correlation > 0.95
    assert fit.correlation_of_attention < 0.6
    assert fit.head.model == "model"


def test_what_does_not_carry_over_is_seen_in_the_correlation() -> None:
    sequences = [
        made_up(0, np.array([2.0, 0.0])),
        made_up(1, np.array([-2.0, 0.0])),
    ]
    fit = fit_head(sequences, ["a", "b"], "model")
    assert fit.correlation < fit.correlation_of_attention


def test_a_fit_needs_two_groups() -> None:
    samples = made_up(0, np.array([1.0]))
    with pytest.raises(ValueError, match="two groups or more, got 1"):
        fit_head([samples, samples], ["a", "a"], "model")
    with pytest.raises(ValueError, match="a group for each sequence"):
        fit_head([samples], ["a", "b"], "model")
