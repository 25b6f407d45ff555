"""Tagging from inside a model's forwards, against hidden states read the slow way."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close
from transformers import DynamicCache, GPT2Config, GPT2LMHeadModel, LlamaForCausalLM

from memdecay.classifier.artifact import ClassifierArtifact
from memdecay.classifier.decoder import decoder_layers
from memdecay.classifier.errors import ModelError
from memdecay.classifier.features import position_features
from memdecay.runtime.cache import DecayCache
from memdecay.runtime.config import CacheConfig
from memdecay.runtime.hooks import (
    ForwardStates,
    attach_memory,
    describe_by_position,
    tag_tokens,
    watch_hidden_states,
)
from memdecay.runtime.streaming import StreamingTagger
from memdecay.runtime.tagger import RegionTagger, Tags
from tests.runtime.artifacts import LAYER
from tests.tiny import tiny_llama


@pytest.fixture
def model() -> LlamaForCausalLM:
    model = tiny_llama()
    model.generation_config.eos_token_id = None
    return model


@pytest.fixture(scope="module")
def tagger(artifact: ClassifierArtifact) -> RegionTagger:
    return RegionTagger(artifact, "cpu")


def make_cache(model: Any, budget_tokens: int = 200, policy: str = "memdecay") -> DecayCache:
    config = CacheConfig(budget_tokens, num_sinks=2, num_recent=8, policy=policy)
    return DecayCache(model.config, config)


def random_ids(batch: int, seq_len: int) -> Tensor:
    return torch.randint(3, 380, (batch, seq_len), generator=torch.Generator().manual_seed(1))


def forward(model: Any, ids: Tensor, cache: Any, **options: Any) -> Any:
    with torch.inference_mode():
        return model(input_ids=ids, cache=cache, **options)


def reference_tags(
    model: Any, tagger: RegionTagger, ids: Tensor, mask: Tensor | None = None
) -> Tags:
    """Tag a batch at once, positions counted from each row's first real token."""
    mask = torch.ones_like(ids) if mask is None else mask
    positions = (mask.cumsum(1) - 1).clamp_min(0)
    with torch.no_grad():
        hidden_states = model(
            input_ids=ids, attention_mask=mask, position_ids=positions, output_hidden_states=True
        ).hidden_states[LAYER + 1]
    features = np.stack(
        [position_features(row, row, 0 * row, 0 * row - 1) for row in positions.numpy()]
    )
    return tagger.tag(hidden_states, torch.from_numpy(features), mask.bool())


def assert_cache_has(cache: DecayCache, tags: Tags, mask: Tensor | None = None) -> None:
    slots = cache.slots
    real = torch.ones_like(slots.positions) if mask is None else mask.gather(1, slots.positions)
    expected = tags.importance.gather(1, slots.positions)
    assert_close(slots.importance * real, expected * real, atol=1e-3, rtol=1e-4)
    regions = tags.region_probs.argmax(dim=-1).gather(1, slots.positions)
    assert torch.equal(slots.regions * real, regions * real)


@pytest.mark.parametrize("chunks", [[30], [12, 1, 1, 1, 15], [1] * 30])
def test_forwards_in_chunks_leave_the_tags_of_one_shot(
    model: LlamaForCausalLM, tagger: RegionTagger, chunks: list[int]
) -> None:
    ids, cache = random_ids(1, 30), make_cache(model)
    with attach_memory(model, cache, tagger):
        for chunk in ids.split(chunks, dim=1):
            forward(model, chunk, cache)
    assert_cache_has(cache, reference_tags(model, tagger, ids))
    assert len(cache.slots.regions.unique()) > 1


def test_survivors_of_eviction_keep_their_own_tags(
    model: LlamaForCausalLM, tagger: RegionTagger
) -> None:
    """The reference tags the hidden states as they came: they do depend on the evicted."""
    ids, cache = random_ids(1, 90), make_cache(model, 32)
    recorded: list[ForwardStates] = []
    with (
        watch_hidden_states(model, cache, LAYER, recorded.append),
        attach_memory(model, cache, tagger),
    ):
        for chunk in ids.split([3] * 30, dim=1):
            forward(model, chunk, cache)
    assert cache.tokens_kept < cache.tokens_seen == 90
    hidden_states = torch.cat([states.hidden_states for states in recorded], dim=1)
    features = torch.cat([describe_by_position(states) for states in recorded], dim=1)
    assert_cache_has(cache, tagger.tag(hidden_states, features))


def test_generate_tags_a_left_padded_batch(model: LlamaForCausalLM, tagger: RegionTagger) -> None:
    ids, cache = random_ids(3, 20), make_cache(model)
    mask = (torch.arange(20) >= torch.tensor([[0], [5], [11]])).long()
    with attach_memory(model, cache, tagger):
        sequences = model.generate(
            ids, attention_mask=mask, cache=cache, max_new_tokens=10, do_sample=False
        )
    stock = model.generate(ids, attention_mask=mask, max_new_tokens=10, do_sample=False)
    assert torch.equal(sequences, stock)
    seen = sequences[:, : cache.tokens_seen]
    seen_mask = nn.functional.pad(mask, (0, seen.shape[1] - 20), value=1)
    tags = reference_tags(model, tagger, seen, seen_mask)
    assert_cache_has(cache, tags, seen_mask)


def test_generate_stays_within_the_budget(model: LlamaForCausalLM, tagger: RegionTagger) -> None:
    ids, cache = random_ids(1, 60), make_cache(model, 40)
    with attach_memory(model, cache, tagger):
        model.generate(ids, cache=cache, max_new_tokens=50, do_sample=False, prefill_chunk_size=4)
    assert cache.tokens_seen == 109
    assert cache.allocated_bytes <= cache.peak_bytes == cache.bytes_per_token * 40
    assert not bool(cache.slots.attention.isnan().all())
    assert sum(cache.kept_per_region().values()) + sum(cache.evicted_per_region().values()) == 109


def test_the_hook_follows_a_crop(model: LlamaForCausalLM, tagger: RegionTagger) -> None:
    ids, cache = random_ids(1, 40), make_cache(model)
    with attach_memory(model, cache, tagger):
        forward(model, random_ids(2, 40)[1:, :25], cache)
        cache.crop(-25)
        forward(model, ids[:, :20], cache)
        forward(model, random_ids(3, 8)[2:], cache)
        cache.crop(-8)
        forward(model, ids[:, 20:], cache)
    assert_cache_has(cache, reference_tags(model, tagger, ids))


def test_a_streaming_tagger_goes_on_in_the_next_block(
    model: LlamaForCausalLM, tagger: RegionTagger
) -> None:
    ids, cache, streaming = random_ids(1, 30), make_cache(model), StreamingTagger(tagger)
    for chunk in ids.split(10, dim=1):
        with attach_memory(model, cache, streaming):
            forward(model, chunk, cache)
    assert_cache_has(cache, reference_tags(model, tagger, ids))


def test_tokens_seen_outside_the_block_are_left_as_they_are(
    model: LlamaForCausalLM, tagger: RegionTagger
) -> None:
    ids, cache = random_ids(1, 40), make_cache(model)
    forward(model, ids[:, :15], cache)
    untagged = cache.slots.importance.clone()
    with attach_memory(model, cache, tagger):
        forward(model, ids[:, 15:], cache)
    assert torch.equal(cache.slots.importance[:, :15], untagged)
    # Behind the receptive field nothing depends on what the tagger did not see.
    tags = reference_tags(model, tagger, ids)
    assert_close(cache.slots.importance[:, 20:], tags.importance[:, 20:], atol=1e-3, rtol=1e-4)


def test_another_batch_starts_the_tagger_anew(
    model: LlamaForCausalLM, tagger: RegionTagger
) -> None:
    streaming = StreamingTagger(tagger)
    for batch in (2, 3):
        cache, ids = make_cache(model), random_ids(batch, 12)
        with attach_memory(model, cache, streaming):
            forward(model, ids, cache)
        assert_cache_has(cache, reference_tags(model, tagger, ids))


@pytest.mark.parametrize("moves", [[[2, 0, 0], [1, 2, 0]], [[1], [0, 0, 0]]], ids=str)
def test_rows_that_change_places_keep_their_own_neighbours(
    model: LlamaForCausalLM, tagger: RegionTagger, moves: list[list[int]]
) -> None:
    ids, cache = random_ids(3, 10), make_cache(model)
    with attach_memory(model, cache, tagger):
        forward(model, ids, cache)
        for number, rows in enumerate(moves):
            cache.reorder_cache(torch.tensor(rows))
            # Two moves before a forward are as one.
            order = torch.arange(len(rows)).flip(0)
            cache.reorder_cache(order)
            new = random_ids(len(rows), 2 + number) + number
            forward(model, new, cache)
            ids = torch.cat([ids[rows][order], new], dim=1)

    assert_cache_has(cache, reference_tags(model, tagger, ids))


def test_beams_are_tagged_as_their_own_text_is(
    model: LlamaForCausalLM, tagger: RegionTagger, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = make_cache(model)
    texts = [torch.zeros(3, 0, dtype=torch.int64)]

    def read(_module: Any, _args: Any, kwargs: dict[str, Any]) -> None:
        texts[0] = torch.cat([texts[0], kwargs["input_ids"]], dim=1)

    def reorder(rows: Tensor) -> None:
        texts[0] = texts[0][rows]
        DecayCache.reorder_cache(cache, rows)

    monkeypatch.setattr(cache, "reorder_cache", reorder)
    handle = model.model.register_forward_pre_hook(read, with_kwargs=True)
    with attach_memory(model, cache, tagger):
        model.generate(random_ids(1, 14), cache=cache, max_new_tokens=9, num_beams=3)
    handle.remove()

    assert texts[0].shape == (3, 22)
    assert len(texts[0].unique(dim=0)) > 1
    assert_cache_has(cache, reference_tags(model, tagger, texts[0]))


def test_forwards_with_another_cache_are_not_tagged(
    model: LlamaForCausalLM, tagger: RegionTagger
) -> None:
    cache, streaming = make_cache(model), StreamingTagger(tagger)
    with tag_tokens(model, cache, streaming):
        forward(model, random_ids(1, 5), DynamicCache(config=model.config))
        model(input_ids=random_ids(1, 5))
    assert streaming.num_tokens == cache.tokens_seen == 0


def test_without_a_tagger_tokens_stay_ordinary_context(model: LlamaForCausalLM) -> None:
    cache = make_cache(model)
    with attach_memory(model, cache):
        forward(model, random_ids(1, 12), cache)
    assert cache.slots.regions.unique().tolist() == [4]


def hooks_of(model: nn.Module) -> list[tuple[str, int, int]]:
    return [
        (name, len(module._forward_hooks), len(module._forward_pre_hooks))
        for name, module in model.named_modules()
    ]


@pytest.mark.parametrize("fails", [False, True])
def test_the_model_is_as_before(model: LlamaForCausalLM, tagger: RegionTagger, fails: bool) -> None:
    before = hooks_of(model)
    attention = model.config._attn_implementation
    ids, cache = random_ids(1, 8), make_cache(model)
    expected = forward(model, ids, DynamicCache(config=model.config)).logits
    with (
        pytest.raises(KeyboardInterrupt) if fails else nullcontext(),
        attach_memory(model, cache, tagger),
    ):
        assert hooks_of(model) != before
        forward(model, ids, cache)
        if fails:
            raise KeyboardInterrupt
    assert hooks_of(model) == before
    assert model.config._attn_implementation == attention
    assert torch.equal(forward(model, ids, DynamicCache(config=model.config)).logits, expected)


def test_the_states_are_those_of_the_layer(model: LlamaForCausalLM) -> None:
    ids, cache = random_ids(2, 9), make_cache(model)
    seen: list[ForwardStates] = []
    with watch_hidden_states(model, cache, 2, seen.append):
        output = forward(model, ids, cache, output_hidden_states=True)
    assert torch.equal(seen[0].hidden_states, output.hidden_states[3])
    assert seen[0].position_ids.tolist() == [list(range(9))] * 2
    assert (seen[0].start, seen[0].token_mask) == (0, None)


def test_a_layer_that_returns_a_tuple_is_read(model: LlamaForCausalLM) -> None:
    cache = make_cache(model)
    seen: list[ForwardStates] = []
    with watch_hidden_states(model, cache, LAYER, seen.append):
        layer = decoder_layers(model.model)[LAYER]
        handle = layer.register_forward_hook(lambda *args: (args[2], None), prepend=True)
        unwrap = layer.register_forward_hook(lambda *args: args[2][0])
        forward(model, random_ids(1, 4), cache)
    handle.remove()
    unwrap.remove()
    assert seen[0].hidden_states.shape == (1, 4, 32)


@pytest.mark.parametrize("layer", [-1, 4])
def test_a_layer_that_is_not_there_is_refused(model: LlamaForCausalLM, layer: int) -> None:
    with (
        pytest.raises(ModelError, match=f"layer {layer} is to be watched.*the layers 0 to 3"),
        watch_hidden_states(model, make_cache(model), layer, print),
    ):
        pytest.fail("the block must not be entered")


def test_layers_are_found_whatever_they_are_called() -> None:
    config = GPT2Config(n_embd=8, n_layer=3, n_head=2, vocab_size=16, n_positions=16)
    gpt2 = GPT2LMHeadModel(config)
    assert decoder_layers(gpt2.get_decoder()) is gpt2.transformer.h


def test_a_decoder_without_layers_is_refused() -> None:
    model = tiny_llama()
    with pytest.raises(ModelError, match="to hold a list of 4 layers, found none"):
        decoder_layers(model.model.layers[0].self_attn)
