"""A cache whose tokens lose precision equals a full cache with the same losses and a mask."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from transformers import DynamicCache, LlamaConfig, LlamaForCausalLM

from memdecay.classifier.errors import BudgetError, ModelError
from memdecay.runtime.attach import attach
from memdecay.runtime.cache import DecayCache
from memdecay.runtime.config import FadingConfig
from memdecay.runtime.precision.layout import FULL_BITS

from .reference import TINY, hiding_mask, left_padded_mask, make_cache, random_ids, tiny_llama


def fading_cache(budget_tokens: int, **options: Any) -> DecayCache:
    fading = options.pop("fading", FadingConfig(steps=(4, 2), num_exact=6))
    # Rows of differing use, so that tokens land on every step.
    return make_cache(
        tiny_llama(),
        budget_tokens,
        policy="memdecay",
        num_recent=8,
        attention_feedback=False,
        fading=fading,
        **options,
    )


def tag_unevenly(cache: DecayCache, num_new: int, seed: int) -> None:
    """Give the newest tokens importances that differ by orders of magnitude."""
    generator = torch.Generator().manual_seed(seed)
    shape = (cache.slots.positions.shape[0], num_new)
    importance = torch.exp(12 * torch.rand(shape, generator=generator) - 6) ** 4
    probs = torch.zeros(*shape, 5)
    probs[..., 0] = 1.0  # the region that doesn't fade
    cache.set_tags(cache.tokens_seen - num_new, importance, probs)


def position_ids(pad_lengths: list[int], start: int, num_new: int) -> Tensor:
    positions = torch.arange(start, start + num_new) - torch.tensor(pad_lengths)[:, None]
    return positions.clamp_min(0)


class Reference:
    """A full cache that gets the decaying cache's rounded keys and values after each change."""

    def __init__(self, pad_lengths: list[int]) -> None:
        self.pad_lengths = pad_lengths
        self.full = DynamicCache(config=tiny_llama().config)

    def forward(self, ids: Tensor, start: int, kept: Tensor) -> Tensor:
        padding = left_padded_mask(self.pad_lengths, start + ids.shape[1])
        positions = position_ids(self.pad_lengths, start, ids.shape[1])
        return tiny_llama()(
            input_ids=ids,
            attention_mask=hiding_mask(kept, start, padding),
            position_ids=positions,
            cache=self.full,
            use_cache=True,
        ).logits

    def round_like(self, cache: DecayCache) -> None:
        positions = cache.slots.positions
        for ours, full in zip(cache.layers, self.full.layers, strict=True):
            keys, values = ours.dense(torch.float32)
            index = positions[:, None, :, None].expand_as(keys)
            full.keys.scatter_(2, index, keys)
            full.values.scatter_(2, index, values)


def run_both(
    cache: DecayCache, ids: Tensor, pad_lengths: list[int], chunks: list[int]
) -> list[tuple[Tensor, Tensor]]:
    """Feed both caches chunk by chunk and return the logits of real tokens side by side."""
    reference = Reference(pad_lengths)
    pairs = []
    start = 0
    with attach(tiny_llama(), cache), torch.inference_mode():
        for number, size in enumerate(chunks):
            new = ids[:, start : start + size]
            mask = left_padded_mask(pad_lengths, start + size)
            cache.set_padding(mask)
            cache.make_room(size)
            if start:
                reference.round_like(cache)
            kept = cache.slots.positions.clone()
            ours = tiny_llama()(
                input_ids=new,
                attention_mask=mask,
                position_ids=position_ids(pad_lengths, start, size),
                cache=cache,
                use_cache=True,
            ).logits
            theirs = reference.forward(new, start, kept)
            is_real = mask[:, -size:].bool()
            pairs.append((ours[is_real], theirs[is_real]))
            tag_unevenly(cache, size, seed=number)
            start += size
    return pairs


@pytest.mark.parametrize("pad_lengths", [[0], [0, 0], [3, 0]])
def test_forwards_equal_a_full_cache_with_the_same_losses(pad_lengths: list[int]) -> None:
    cache = fading_cache(40)
    ids = random_ids(len(pad_lengths), 150)

    pairs = run_both(cache, ids, pad_lengths, [30, 10, 1, 1, 20, 20, 1, 20, 20, 20, 7])

    assert all(count > 0 for count in cache.layout.counts)
    assert cache.tokens_kept < 150
    for ours, theirs in pairs:
        torch.testing.assert_close(ours, theirs, atol=2e-4, rtol=2e-4)


@given(
    chunks=st.lists(st.integers(1, 24), min_size=2, max_size=14),
    budget=st.integers(36, 90),
    steps=st.sampled_from([(8,), (4,), (2,), (8, 4), (4, 2), (8, 4, 2)]),
)
def test_any_schedule_keeps_to_the_bytes_and_the_books(
    chunks: list[int], budget: int, steps: tuple[int, ...]
) -> None:
    cache = fading_cache(budget, fading=FadingConfig(steps=steps, num_exact=6))
    ids = random_ids(1, sum(chunks))
    most_bytes = 0
    start = 0
    with attach(tiny_llama(), cache), torch.inference_mode():
        for number, size in enumerate(chunks):
            tiny_llama()(input_ids=ids[:, start : start + size], cache=cache, use_cache=True)
            tag_unevenly(cache, size, seed=number)
            start += size
            most_bytes = max(most_bytes, cache.allocated_bytes)
            positions = cache.slots.positions[0].tolist()
            assert len(set(positions)) == len(positions) == cache.tokens_kept
            assert cache.layout.num_tokens == cache.tokens_kept
            assert set(range(max(0, start - 8), start)) <= set(positions)
            assert set(range(min(2, start))) <= set(positions)
            for layer in cache.layers:
                assert layer.dense(torch.float32)[0].shape[2] == cache.tokens_kept

    full_token = 2 * 2 * 8 * 4 * len(cache.layers)  # keys and values, heads, width, bytes
    assert most_bytes <= cache.peak_bytes <= budget * full_token


def storage_bytes(thing: object, seen: set[int]) -> int:
    """Add up the memory of all tensors that something holds, each piece of memory once."""
    if isinstance(thing, Tensor):
        storage = thing.untyped_storage()
        is_new = storage.data_ptr() not in seen
        seen.add(storage.data_ptr())
        return storage.nbytes() if is_new else 0
    if isinstance(thing, dict):
        return sum(storage_bytes(value, seen) for value in thing.values())
    if isinstance(thing, list | tuple):
        return sum(storage_bytes(value, seen) for value in thing)
    if dataclasses.is_dataclass(thing):
        names = [field.name for field in dataclasses.fields(thing)]
        return sum(storage_bytes(getattr(thing, name), seen) for name in names)
    return 0


@pytest.mark.parametrize("steps", [(), (8,), (4, 2), (8, 4, 2)], ids=str)
@pytest.mark.parametrize("batch_size", [1, 2])
@pytest.mark.parametrize("staging_share", [0.0, 0.2])
def test_the_memory_itself_is_what_the_books_say_and_within_the_budget(
    steps: tuple[int, ...], batch_size: int, staging_share: float
) -> None:
    fading = FadingConfig(steps=steps, num_exact=6, staging_share=staging_share)
    cache = fading_cache(60, fading=fading)
    chunks = [20, 20, 20, *[1] * 9, 20, 20, 7, *[1] * 9]
    ids = random_ids(batch_size, sum(chunks))
    with attach(tiny_llama(), cache), torch.inference_mode():
        for number, new in enumerate(ids.split(chunks, dim=1)):
            tiny_llama()(input_ids=new, cache=cache, use_cache=True)
            tag_unevenly(cache, new.shape[1], seed=number)
            held = sum(storage_bytes(vars(layer), set()) for layer in cache.layers)
            assert held + cache.waiting_bytes == cache.allocated_bytes
            assert held <= cache.peak_bytes <= 60 * cache.bytes_per_token

    assert (cache.layout.num_faded > 0) == bool(steps)
    assert steps or cache.tokens_kept < sum(chunks)


def test_more_tokens_stay_than_at_full_precision() -> None:
    cache, plain = fading_cache(64), fading_cache(64, fading=FadingConfig(steps=()))
    for each in (cache, plain):
        run_both(each, random_ids(1, 200), [0], [20] * 10)

    assert cache.allocated_bytes <= plain.allocated_bytes
    assert cache.tokens_kept > 1.5 * plain.tokens_kept


def test_nothing_fades_while_the_budget_has_room() -> None:
    cache = fading_cache(200)

    for ours, theirs in run_both(cache, random_ids(1, 120), [0], [40, 40, 40]):
        torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=1e-5)

    assert cache.layout.num_faded == 0


def test_exact_tokens_can_be_taken_back_and_faded_ones_not() -> None:
    cache = fading_cache(40)
    run_both(cache, random_ids(1, 100), [0], [20] * 5)
    num_full = cache.layout.num_full

    cache.crop(-4)

    assert (cache.tokens_seen, cache.layout.num_full) == (96, num_full - 4)
    with pytest.raises(ValueError, match="cannot take back"):
        cache.crop(-90)
    assert cache.tokens_seen == 96


def test_rows_change_places_with_their_packed_tokens() -> None:
    cache = fading_cache(40)
    run_both(cache, random_ids(2, 100), [0, 0], [20] * 5)
    before = [layer.dense(torch.float32)[0] for layer in cache.layers]

    cache.reorder_cache(torch.tensor([1, 0]))

    for layer, keys in zip(cache.layers, before, strict=True):
        torch.testing.assert_close(layer.dense(torch.float32)[0], keys.flip(0))


def test_rows_change_places_before_anything_fades() -> None:
    cache = fading_cache(200)
    run_both(cache, random_ids(2, 40), [0, 0], [20, 20])
    before = [layer.dense(torch.float32)[0] for layer in cache.layers]

    cache.reorder_cache(torch.tensor([1, 0]))

    for layer, keys in zip(cache.layers, before, strict=True):
        torch.testing.assert_close(layer.dense(torch.float32)[0], keys.flip(0))


def test_reset_frees_everything() -> None:
    cache = fading_cache(40)
    run_both(cache, random_ids(1, 100), [0], [20] * 5)

    cache.reset()

    assert (cache.allocated_bytes, cache.tokens_seen, cache.tokens_kept) == (0, 0, 0)
    for ours, theirs in run_both(cache, random_ids(1, 60, seed=3), [0], [20] * 3):
        torch.testing.assert_close(ours, theirs, atol=2e-4, rtol=2e-4)


def test_a_chunk_beyond_the_budget_is_refused() -> None:
    cache = fading_cache(40)
    run_both(cache, random_ids(1, 20), [0], [20])

    with pytest.raises(BudgetError, match="use chunks of at most 30 tokens"):
        cache.make_room(38)


def test_buffers_may_have_another_dtype_than_the_model() -> None:
    cache = fading_cache(64, storage_dtype="bfloat16")

    for ours, theirs in run_both(cache, random_ids(1, 120), [0], [20] * 6):
        assert ours.dtype == torch.float32
        torch.testing.assert_close(ours, theirs, atol=0.3, rtol=0.1)

    assert cache.layers[0].step_bytes[FULL_BITS] == 2 * 2 * 8 * 2


def test_heads_of_odd_width_are_refused_when_the_first_token_fades() -> None:
    model = LlamaForCausalLM(LlamaConfig(**{**TINY, "head_dim": 12})).eval()
    cache = make_cache(model, 20, policy="memdecay", fading=FadingConfig(num_exact=2))

    def feed() -> None:
        for _ in range(5):
            model(input_ids=random_ids(1, 8), cache=cache, use_cache=True)

    with attach(model, cache), torch.inference_mode(), pytest.raises(ModelError, match="fading"):
        feed()
