import pytest
import torch
from transformers import LlamaConfig

from memdecay.classifier.errors import ConfigError
from memdecay.serving.measuring import measure_activations
from memdecay.serving.sizing import (
    Load,
    ModelShape,
    estimate_sizes,
    kv_bytes_per_token,
    most_sessions,
    read_shape,
)
from tests.tiny import tiny_llama

SHAPE = ModelShape(
    num_parameters=1000,
    num_layers=3,
    num_key_value_heads=2,
    head_dim=8,
    hidden_size=64,
    intermediate_size=128,
    vocab_size=384,
)


@pytest.mark.parametrize("num_key_value_heads", [1, 2, 4])
def test_bytes_of_a_token_are_those_that_a_cache_takes(num_key_value_heads: int) -> None:
    model = tiny_llama(num_key_value_heads=num_key_value_heads)
    num_parameters = sum(parameter.numel() for parameter in model.parameters())
    output = model(input_ids=torch.ones(1, 7, dtype=torch.long), use_cache=True)
    held = sum(layer.keys.nbytes + layer.values.nbytes for layer in output.past_key_values.layers)
    assert 7 * kv_bytes_per_token(read_shape(model.config, num_parameters), 4) == held


def test_head_width_of_its_own_counts() -> None:
    config = LlamaConfig(hidden_size=64, num_attention_heads=4, head_dim=32)
    assert read_shape(config, 1).head_dim == 32


def test_sizes_are_sums_of_their_parts() -> None:
    load = Load(num_sessions=5, budget_tokens=100, chunk_tokens=16, bytes_per_value=2)
    sizes = estimate_sizes(SHAPE, load)
    assert sizes.weights == 2000
    assert sizes.kv_per_token == 2 * 3 * 2 * 8 * 2
    assert sizes.kv == 5 * 100 * sizes.kv_per_token
    assert sizes.activations == 16 * (6 * 64 + 2 * 128) * 2 + 5 * 384 * 4
    assert sizes.total == sizes.weights + sizes.kv + sizes.activations


@pytest.mark.parametrize("available", [0, 2000, 10**6, 10**8])
def test_most_sessions_fit_and_one_more_does_not(available: int) -> None:
    load = Load(num_sessions=1, budget_tokens=100, chunk_tokens=16, bytes_per_value=2)
    most = most_sessions(SHAPE, load, available)

    def total(num_sessions: int) -> int:
        return estimate_sizes(SHAPE, Load(num_sessions, 100, 16, 2)).total

    assert total(most + 1) > available
    assert most == 0 or total(most) <= available


@pytest.mark.parametrize("name", Load.__slots__)
def test_load_without_something_is_refused(name: str) -> None:
    numbers = dict.fromkeys(Load.__slots__, 1) | {name: 0}
    with pytest.raises(ValueError, match=name):
        Load(**numbers)


def test_shape_without_layers_is_refused() -> None:
    with pytest.raises(ValueError, match="num_layers"):
        ModelShape(1, 0, 1, 1, 1, 1, 1)


def test_measuring_needs_a_device_that_counts() -> None:
    with pytest.raises(ConfigError, match="needs a CUDA device"):
        measure_activations("smollm2", "float32", torch.device("cpu"), 16)
