"""Flex attention goes wrong on a CPU, so that a model with our cache on it does without."""

from __future__ import annotations

import copy
import warnings

import pytest
import torch
from transformers import AutoModelForCausalLM, Gemma2Config, PreTrainedModel

from memdecay.classifier.decoder import find_decoder
from memdecay.runtime.attach import attach
from memdecay.runtime.sound_attention import sound_attention
from tests.runtime.reference import TINY, make_cache, random_ids, tiny_llama

CHUNKS = (20, 20, 1, 1, 18)


def last_logits(model: PreTrainedModel, policy: str) -> list[torch.Tensor]:
    """Feed tokens under a small budget; return the last logits of each forward."""
    cache = make_cache(model, 40, policy=policy)
    ids = random_ids(1, sum(CHUNKS))
    with torch.no_grad(), attach(model, cache):
        logits = [model(chunk, cache=cache).logits[:, -1] for chunk in ids.split(CHUNKS, dim=1)]
    assert cache.tokens_kept < cache.tokens_seen
    return logits


@pytest.mark.parametrize("policy", ["window", "memdecay"])
def test_a_flex_model_on_a_cpu_says_what_an_sdpa_model_says(policy: str) -> None:
    model = tiny_llama("flex_attention")

    with pytest.warns(RuntimeWarning, match="flex attention gives NaN on a CPU.*sdpa"):
        ours = last_logits(model, policy)

    torch.testing.assert_close(ours, last_logits(tiny_llama("sdpa"), policy), rtol=0, atol=1e-5)
    assert model.config._attn_implementation == "flex_attention"


def test_capped_logits_are_left_to_the_models_own_attention() -> None:
    config = Gemma2Config(**TINY, head_dim=8)
    model = AutoModelForCausalLM.from_config(config, attn_implementation="flex_attention").eval()
    decoder = find_decoder(model)

    with pytest.warns(RuntimeWarning, match="eager"), sound_attention(decoder):
        assert decoder.config._attn_implementation == "eager"

    assert decoder.config._attn_implementation == "flex_attention"


def test_the_model_is_put_back_when_the_block_fails() -> None:
    decoder = find_decoder(tiny_llama("flex_attention"))

    with pytest.warns(RuntimeWarning), pytest.raises(KeyError), sound_attention(decoder):
        raise KeyError

    assert decoder.config._attn_implementation == "flex_attention"


@pytest.mark.parametrize("implementation", ["sdpa", "eager"])
def test_other_attention_is_left_alone(implementation: str) -> None:
    decoder = find_decoder(tiny_llama(implementation))

    with warnings.catch_warnings(), sound_attention(decoder):
        warnings.simplefilter("error")
        assert decoder.config._attn_implementation == implementation


def test_flex_attention_is_left_to_other_devices() -> None:
    decoder = copy.deepcopy(find_decoder(tiny_llama("flex_attention"))).to("meta")

    with sound_attention(decoder):
        assert decoder.config._attn_implementation == "flex_attention"
