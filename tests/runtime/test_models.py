"""Other model families, and models that mix sliding windows with full attention."""

from __future__ import annotations

import pytest
import torch
from transformers import DynamicCache, JambaConfig, MistralConfig

from memdecay.classifier.errors import ModelError
from memdecay.runtime.attach import attach
from memdecay.runtime.cache import DecayCache
from memdecay.runtime.config import CacheConfig
from memdecay.runtime.layer import EvictingLayer
from tests.runtime.families import FAMILIES, SLIDING_WINDOW, tiny_family
from tests.runtime.quantized_twin import sliding_mask
from tests.runtime.reference import TINY, Twin, hiding_mask, make_cache, random_ids

UNIFORM = [pair for pair in FAMILIES if not pair[0].startswith("gemma")]
MIXED = [pair for pair in FAMILIES if pair[0].startswith("gemma")]


@pytest.mark.parametrize(("family", "implementation"), UNIFORM)
def test_family_equals_a_full_cache_that_hides_the_same_tokens(
    family: str, implementation: str
) -> None:
    model = tiny_family(family, implementation)
    cache = make_cache(model, 16, policy="memdecay", low_watermark=0.7)
    twin = Twin(model, cache, random_ids(2, 60), [0, 5])

    with attach(model, cache):
        for chunk in (8, 8, 1, 1, 8, 1, 8):
            cache.make_room(chunk)
            ours, expected = twin.feed(chunk)
            torch.testing.assert_close(ours, expected, rtol=0, atol=1e-4)

    assert cache.peak_bytes == 16 * cache.bytes_per_token
    assert cache.tokens_seen == 35


@pytest.mark.parametrize(("family", "implementation"), MIXED)
@torch.no_grad()
def test_mixed_model_evicts_only_from_its_full_attention_layers(
    family: str, implementation: str
) -> None:
    model = tiny_family(family, implementation)
    cache = make_cache(model, 16, policy="memdecay", low_watermark=0.7)
    full = DynamicCache()  # without a configuration no layer slides; the masks do it
    ids, seen = random_ids(1, 60), 0

    with attach(model, cache):
        for chunk in (8, 8, 1, 1, 8, 1, 8):
            cache.make_room(chunk)
            end = seen + chunk
            kept = cache.slots.positions if seen else torch.zeros(1, 0, dtype=torch.int64)
            ours = model(ids[:, seen:end], cache=cache).logits
            masks = {
                "full_attention": hiding_mask(kept, seen, torch.ones(1, end)),
                "sliding_attention": sliding_mask(seen, end, SLIDING_WINDOW),
            }
            expected = model(ids[:, seen:end], attention_mask=masks, cache=full).logits
            torch.testing.assert_close(ours, expected, rtol=0, atol=1e-4)
            seen = end

    assert [isinstance(layer, EvictingLayer) for layer in cache.layers] == [False, True] * 2
    assert cache.tokens_kept <= 16 < cache.tokens_seen
    assert cache.peak_bytes == 16 * cache.bytes_per_token


@torch.no_grad()
def test_mixed_model_reorders_and_refuses_to_crop_past_its_window() -> None:
    model = tiny_family("gemma3", "sdpa")
    cache = make_cache(model, 32)
    model(random_ids(2, 20), cache=cache)
    keys = [layer.keys.clone() for layer in cache.layers]

    cache.reorder_cache(torch.tensor([1, 0]))

    for layer, before in zip(cache.layers, keys, strict=True):
        assert torch.equal(layer.keys, before.flip(0))
    with pytest.raises(RuntimeError, match="sliding window"):
        cache.crop(-2)
    assert cache.tokens_kept == cache.layers[1].keys.shape[2] == 20


def test_model_with_sliding_windows_only_is_refused() -> None:
    with pytest.raises(ModelError, match="mistral model has sliding windows in every layer"):
        DecayCache(MistralConfig(**TINY, sliding_window=8), CacheConfig(1024))


def test_model_with_layers_that_are_no_attention_is_refused() -> None:
    with pytest.raises(ModelError, match="this jamba model has"):
        DecayCache(JambaConfig(num_hidden_layers=8), CacheConfig(1024))
