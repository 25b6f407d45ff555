import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from memdecay.classifier.network import NetworkConfig, context_means
from memdecay.classifier.regions import NUM_REGIONS


def reference_means(
    values: torch.Tensor, mask: torch.Tensor, context_tokens: int
) -> tuple[torch.Tensor, torch.Tensor]:
    left, right = torch.zeros_like(values), torch.zeros_like(values)
    for row in range(values.shape[0]):
        for i in range(values.shape[1]):
            before = range(max(0, i - context_tokens), i)
            after = range(i + 1, min(values.shape[1], i + 1 + context_tokens))
            for side, places in ((left, before), (right, after)):
                seen = [values[row, j] for j in places if mask[row, j]]
                if seen:
                    side[row, i] = torch.stack(seen).mean(dim=0)
    return left, right


@settings(deadline=None, max_examples=50)
@given(seq_len=st.integers(0, 30), context=st.integers(1, 9), seed=st.integers(0, 10_000))
def test_context_means_equal_a_plain_loop(seq_len: int, context: int, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    values = torch.randn(2, seq_len, 3, generator=generator)
    mask = torch.rand(2, seq_len, generator=generator) > 0.2
    left, right = context_means(values, mask, context)
    expected_left, expected_right = reference_means(values, mask, context)
    torch.testing.assert_close(left, expected_left, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(right, expected_right, atol=1e-5, rtol=1e-5)


def test_a_token_sees_no_further_than_its_context() -> None:
    network = NetworkConfig(16, 4, context_tokens=5).build().eval()
    hidden, position = torch.randn(1, 40, 16), torch.rand(1, 40, 4)
    mask = torch.ones(1, 40, dtype=torch.bool)
    changed = hidden.clone()
    # Not the same step in all channels: the layer norm would take that away again.
    changed[0, 20] += torch.randn(16)
    difference = (network(hidden, position, mask) - network(changed, position, mask)).abs()
    touched = difference.sum(dim=-1)[0].nonzero().flatten().tolist()
    assert touched == list(range(15, 26))


def test_default_network_stays_far_below_a_million_weights() -> None:
    network = NetworkConfig(hidden_size=4096, num_position_features=10).build()
    assert sum(parameter.numel() for parameter in network.parameters()) < 500_000


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("hidden_size", 0),
        ("num_position_features", 0),
        ("projection_size", 0),
        ("mlp_size", 0),
        ("context_tokens", -1),
        ("dropout", 1.0),
        ("hidden_dropout", -0.1),
        ("hidden_dropout", 1.0),
        ("rules_weight", -1.0),
        ("rules_weight", float("nan")),
    ],
)
def test_bad_sizes_are_refused(field: str, value: float) -> None:
    sizes = {"hidden_size": 8, "num_position_features": 2} | {field: value}
    with pytest.raises(ValueError, match=field):
        NetworkConfig(**sizes)  # type: ignore[arg-type]


@pytest.mark.parametrize("column", [-1, 4])
def test_rule_scores_outside_the_position_features_are_refused(column: int) -> None:
    with pytest.raises(ValueError, match="rules_column must lie in 0 to 3"):
        NetworkConfig(8, NUM_REGIONS + 3, rules_column=column, rules_weight=1.0)


def test_rule_scores_count_beside_the_networks_own_logits() -> None:
    config = NetworkConfig(8, NUM_REGIONS + 3, dropout=0.0, rules_column=2, rules_weight=3.0)
    network = config.build()
    hidden, position = torch.randn(2, 9, 8), torch.rand(2, 9, NUM_REGIONS + 3)
    mask = torch.ones(2, 9, dtype=torch.bool)
    own = network.train()(hidden, position, mask)
    together = network.eval()(hidden, position, mask)
    torch.testing.assert_close(together, own + 3.0 * position[..., 2 : 2 + NUM_REGIONS])


def test_features_count_by_their_deviation_from_the_mean() -> None:
    network = NetworkConfig(8, 3, dropout=0.0).build().eval()
    plain = NetworkConfig(8, 3, dropout=0.0).build().eval()
    plain.load_state_dict(network.state_dict())
    means, deviations = torch.tensor([1.0, -2.0, 0.5]), torch.tensor([2.0, 0.1, 1.0])
    network.standardize(means, deviations)
    hidden, mask = torch.randn(2, 9, 8), torch.ones(2, 9, dtype=torch.bool)
    features = torch.randn(2, 9, 3).clamp(-3, 3)
    torch.testing.assert_close(
        network(hidden, features * deviations + means, mask),
        plain(hidden, features, mask),
        atol=0.05,
        rtol=0.05,
    )


def test_a_feature_far_from_all_that_was_seen_counts_no_more_than_a_far_one() -> None:
    network = NetworkConfig(8, 3).build().eval()
    hidden, mask = torch.randn(1, 4, 8), torch.ones(1, 4, dtype=torch.bool)
    far, further = torch.full((1, 4, 3), 50.0), torch.full((1, 4, 3), 5000.0)
    torch.testing.assert_close(network(hidden, far, mask), network(hidden, further, mask))


def test_means_of_another_width_are_refused() -> None:
    with pytest.raises(ValueError, match=r"must be \(3,\), got \(2,\) and \(3,\)"):
        NetworkConfig(8, 3).build().standardize(torch.zeros(2), torch.ones(3))


def test_hidden_states_are_left_out_of_some_tokens_while_training_only() -> None:
    network = NetworkConfig(8, 3, dropout=0.0, hidden_dropout=0.5).build()
    hidden, position = torch.randn(1, 400, 8), torch.zeros(1, 400, 3)
    mask = torch.ones(1, 400, dtype=torch.bool)
    blind = network.mlp(torch.zeros(1, 3 * network.config.projection_size + 3))
    with torch.inference_mode():
        left_out = (network.train()(hidden, position, mask) - blind).abs().sum(-1) < 1e-5
        seen = (network.eval()(hidden, position, mask) - blind).abs().sum(-1) > 1e-5
    assert 100 < int(left_out.sum()) < 300
    assert bool(seen.all())
