"""Keys are turned as the models turn them, and back."""

from __future__ import annotations

import torch
from torch import nn
from transformers import Gemma3TextConfig, Gemma3TextModel
from transformers.models.llama.modeling_llama import apply_rotary_pos_emb

from memdecay.classifier.decoder import find_decoder
from memdecay.runtime.precision.rotary import RotaryFrequencies

from ..reference import TINY, tiny_llama


def test_keys_turn_as_in_llama() -> None:
    decoder = find_decoder(tiny_llama())
    positions = torch.tensor([[0, 3, 500]])
    keys = torch.randn(1, 2, 3, 8)
    cos, sin = decoder.rotary_emb(keys, positions)
    _, expected = apply_rotary_pos_emb(keys, keys, cos, sin)

    turned = RotaryFrequencies.of(decoder).rotation(positions).turn(keys)

    torch.testing.assert_close(turned, expected)


def test_turning_back_undoes_turning() -> None:
    rotation = RotaryFrequencies(torch.tensor([1.0, 0.1, 0.01])).rotation(torch.arange(40)[None])
    keys = torch.randn(1, 2, 40, 8)  # two elements more than turn

    torch.testing.assert_close(rotation.turn_back(rotation.turn(keys)), keys)
    assert torch.equal(rotation.turn(keys)[..., 6:], keys[..., 6:])


def test_frequencies_are_copied() -> None:
    decoder = nn.Module()
    decoder.rotary_emb = nn.Module()
    decoder.rotary_emb.inv_freq = torch.ones(4)
    frequencies = RotaryFrequencies.of(decoder)

    decoder.rotary_emb.inv_freq.fill_(2.0)

    assert torch.equal(frequencies.inverse, torch.ones(4))


def test_each_type_of_layer_has_its_own_frequencies() -> None:
    config = Gemma3TextConfig(
        **TINY, head_dim=8, layer_types=["sliding_attention"] * 2 + ["full_attention"]
    )
    decoder = Gemma3TextModel(config)

    full = RotaryFrequencies.of(decoder)

    assert torch.equal(full.inverse, decoder.rotary_emb.full_attention_inv_freq)
    assert not torch.equal(full.inverse, decoder.rotary_emb.sliding_attention_inv_freq)


def test_a_decoder_without_rotary_embedding_turns_nothing() -> None:
    rotation = RotaryFrequencies.of(nn.Module()).rotation(torch.arange(5)[None])
    keys = torch.randn(1, 2, 5, 8)

    assert torch.equal(rotation.turn(keys), keys)
