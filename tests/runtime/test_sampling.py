"""The choice of the next token."""

from __future__ import annotations

import pytest
import torch

from memdecay.runtime.sampling import Sampler, SamplingConfig, most_likely

CPU = torch.device("cpu")
LOGITS = torch.tensor([0.5, 3.0, 1.0, 2.0]).log()  # probabilities in proportion


def draws(config: SamplingConfig, num_draws: int = 4000) -> torch.Tensor:
    sampler = Sampler(config, CPU)
    picked = torch.tensor([sampler.pick(LOGITS) for _ in range(num_draws)])
    return torch.bincount(picked, minlength=4) / num_draws


def test_temperature_zero_takes_the_most_likely() -> None:
    assert Sampler(SamplingConfig(), CPU).pick(LOGITS.bfloat16()) == 1


@pytest.mark.parametrize("temperature", [5e-324, 1e-45, 1e-38, 1e-6])
def test_a_temperature_next_to_zero_takes_the_most_likely(temperature: float) -> None:
    sampler = Sampler(SamplingConfig(temperature), CPU)
    assert sampler.pick(torch.tensor([1e4, -1e4, 2e4])) == 2


def test_draws_follow_the_probabilities() -> None:
    expected = torch.tensor([0.5, 3.0, 1.0, 2.0]) / 6.5
    torch.testing.assert_close(
        draws(SamplingConfig(temperature=1.0, seed=0)), expected, atol=0.03, rtol=0
    )


def test_a_higher_temperature_evens_them_out() -> None:
    expected = torch.tensor([0.5, 3.0, 1.0, 2.0]).sqrt()
    torch.testing.assert_close(
        draws(SamplingConfig(temperature=2.0, seed=0)), expected / expected.sum(), atol=0.03, rtol=0
    )


def test_top_p_draws_from_the_most_likely_only() -> None:
    shares = draws(SamplingConfig(temperature=1.0, top_p=0.7, seed=0))
    assert shares[[0, 2]].tolist() == [0, 0]
    torch.testing.assert_close(shares[1], torch.tensor(0.6), atol=0.03, rtol=0)


@pytest.mark.parametrize(
    ("top_p", "kept"),
    [(1e-320, [1]), (0.01, [1]), (0.4, [1]), (0.55, [1, 3]), (0.8, [1, 2, 3]), (1.0, [0, 1, 2, 3])],
)
def test_the_fewest_tokens_that_reach_top_p_stay(top_p: float, kept: list[int]) -> None:
    probs = torch.tensor([0.05, 0.45, 0.2, 0.3])
    result = most_likely(probs, top_p)
    assert result.nonzero().squeeze(1).tolist() == kept
    assert torch.equal(result[kept], probs[kept])


def test_the_same_seed_draws_the_same_and_leaves_the_global_state_alone() -> None:
    state = torch.get_rng_state()
    config = SamplingConfig(temperature=1.0, seed=3)
    assert torch.equal(draws(config, 50), draws(config, 50))
    assert torch.equal(torch.get_rng_state(), state)


def test_without_a_seed_draws_differ() -> None:
    config = SamplingConfig(temperature=1.0)
    assert not torch.equal(draws(config, 500), draws(config, 500))


@pytest.mark.parametrize("temperature", [-0.1, float("nan"), float("inf")])
def test_a_temperature_out_of_range_is_refused(temperature: float) -> None:
    with pytest.raises(ValueError, match="temperature must be 0 or above"):
        SamplingConfig(temperature=temperature)


@pytest.mark.parametrize("top_p", [0.0, -1.0, 1.1, float("nan")])
def test_top_p_out_of_range_is_refused(top_p: float) -> None:
    with pytest.raises(ValueError, match="top_p must lie in"):
        SamplingConfig(top_p=top_p)
