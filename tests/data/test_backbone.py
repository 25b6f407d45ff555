from __future__ import annotations

import numpy as np
import pytest
import torch

from memdecay.data.backbone import decoder_up_to, hidden_states_in_chunks
from tests.tiny import tiny_language_model

LLM = tiny_language_model()
INPUT_IDS = np.random.default_rng(0).integers(3, 384, 50)


def extract(layer: int, chunk_tokens: int) -> np.ndarray:
    return np.concatenate(list(hidden_states_in_chunks(LLM, INPUT_IDS, layer, chunk_tokens)))


@pytest.mark.parametrize("layer", [0, 1, 2])
@pytest.mark.parametrize("chunk_tokens", [1, 7, 50, 512])
def test_states_are_those_of_one_full_forward(layer: int, chunk_tokens: int) -> None:
    reference = LLM.model(torch.from_numpy(INPUT_IDS)[None], output_hidden_states=True)
    hidden_states = extract(layer, chunk_tokens)
    assert hidden_states.dtype == np.float16
    np.testing.assert_allclose(
        hidden_states, reference.hidden_states[layer + 1][0].numpy(), atol=1e-3
    )


def test_last_layer_is_read_before_the_final_norm() -> None:
    reference = LLM.model(torch.from_numpy(INPUT_IDS)[None], output_hidden_states=True)
    normed = LLM.model.model.norm(torch.from_numpy(extract(3, 16)).float())
    torch.testing.assert_close(normed, reference.hidden_states[-1][0], atol=5e-3, rtol=5e-3)


def test_no_tokens_give_no_chunks() -> None:
    assert list(hidden_states_in_chunks(LLM, INPUT_IDS[:0], 1, 8)) == []


def test_values_beyond_float16_are_limited() -> None:
    llm = tiny_language_model()
    llm.model.model.embed_tokens.weight.mul_(1e9)
    (states,) = hidden_states_in_chunks(llm, INPUT_IDS, 0, 64)
    assert np.isfinite(states).all()
    assert np.abs(states).max() == np.finfo(np.float16).max


def test_only_the_needed_layers_are_run() -> None:
    with decoder_up_to(LLM.model, 1) as (decoder, last):
        assert decoder.layers[-1] is last
        assert len(decoder.layers) == 2


def test_model_is_as_before_even_after_an_error() -> None:
    # A model of its own: asking transformers for hidden states leaves hooks on the layers.
    model = (llm := tiny_language_model()).model
    layers = model.model.layers
    chunks = hidden_states_in_chunks(llm, INPUT_IDS, 1, 8)
    next(chunks)
    assert model.model.layers is not layers
    assert layers[1]._forward_hooks
    with pytest.raises(KeyError):
        chunks.throw(KeyError())
    assert model.model.layers is layers
    assert len(layers) == 4
    assert not any(layer._forward_hooks for layer in layers)


@pytest.mark.parametrize("layer", [-1, 4])
def test_absent_layer_is_refused(layer: int) -> None:
    with pytest.raises(ValueError, match="layer must lie in 0 to 3"):
        extract(layer, 8)
