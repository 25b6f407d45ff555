"""A forward over packed tokens gives the same, whether they are unpacked for it or not."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from torch import Tensor
from transformers import PreTrainedModel

from memdecay.classifier.decoder import find_decoder
from memdecay.runtime import fading_layer
from memdecay.runtime.attach import attach
from memdecay.runtime.cache import DecayCache
from memdecay.runtime.config import FadingConfig, FeedbackConfig
from memdecay.runtime.packed_attention import attend_to_packed
from memdecay.runtime.packed_states import PackedStates

from .families import CONFIGS, tiny_family
from .reference import left_padded_mask, make_cache, random_ids

pytest.importorskip("numba")

CHUNKS = (20, 20, 20, 1, 1, 8, 1, 20, 1, 1)


def fading_cache(model: PreTrainedModel, **options: Any) -> DecayCache:
    return make_cache(
        model,
        40,
        policy="memdecay",
        num_recent=8,
        fading=FadingConfig(steps=(4, 2), num_exact=6),
        **options,
    )


@contextmanager
def unpacking(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let there be no kernel."""
    with monkeypatch.context() as patch:
        patch.setattr(fading_layer, "find_kernel", lambda _: None)
        yield


def run(
    model: PreTrainedModel, cache: DecayCache, pad_lengths: list[int]
) -> tuple[list[Tensor], list[int]]:
    """Return the last logits of every chunk, and the sizes of those that attended to packed."""
    ids = random_ids(len(pad_lengths), sum(CHUNKS))
    logits, packed = [], []
    calls = [0]
    attended = cache.attend

    def counting(*args: Any) -> Tensor:
        calls[0] += 1
        return attended(*args)

    cache.attend = counting  # type: ignore[method-assign]
    start = 0
    with attach(model, cache), torch.inference_mode():
        for size in CHUNKS:
            calls[0] = 0
            mask = left_padded_mask(pad_lengths, start + size)
            positions = (mask.cumsum(1) - 1).clamp_min(0)[:, -size:]
            output = model(
                input_ids=ids[:, start : start + size],
                attention_mask=mask,
                position_ids=positions,
                cache=cache,
                use_cache=True,
            )
            logits.append(output.logits[:, -1])
            start += size
            if calls[0]:
                packed.append(size)
    return logits, packed


@pytest.mark.parametrize("pad_lengths", [[0], [3, 0]], ids=["one row", "padded rows"])
@pytest.mark.parametrize("name", sorted(CONFIGS))
@pytest.mark.parametrize("storage_dtype", [None, "bfloat16"])
def test_logits_are_those_of_unpacked_tokens(
    name: str,
    pad_lengths: list[int],
    storage_dtype: str | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model = tiny_family(name)
    with unpacking(monkeypatch):
        expected, none = run(model, fading_cache(model, storage_dtype=storage_dtype), pad_lengths)

    ours, packed = run(model, fading_cache(model, storage_dtype=storage_dtype), pad_lengths)

    is_eager = name == "gemma2"  # Its logits are capped, which torch's attention can't do.
    assert packed == ([] if is_eager else [1] * 5)
    assert none == []
    torch.testing.assert_close(ours, expected, atol=2e-4, rtol=2e-4)


def test_eager_attention_gets_unpacked_tokens() -> None:
    model = tiny_family("llama", "eager")

    logits, packed = run(model, fading_cache(model), [0])

    assert packed == []
    expected, _ = run(tiny_family("llama"), fading_cache(tiny_family("llama")), [0])
    torch.testing.assert_close(logits, expected, atol=2e-4, rtol=2e-4)


@pytest.mark.parametrize("pad_lengths", [[0], [3, 0]], ids=["one row", "padded rows"])
def test_attention_is_watched_all_the_same(
    pad_lengths: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    model = tiny_family("llama")
    unpacked, packed = (fading_cache(model) for _ in range(2))
    with unpacking(monkeypatch):
        run(model, unpacked, pad_lengths)

    run(model, packed, pad_lengths)

    torch.testing.assert_close(
        packed.slots.attention, unpacked.slots.attention, atol=1e-5, rtol=1e-4, equal_nan=True
    )
    assert bool((packed.slots.attention > 0).any())


def test_nothing_is_unpacked_to_watch_a_single_token(monkeypatch: pytest.MonkeyPatch) -> None:
    model = tiny_family("llama")
    cache = fading_cache(model, feedback=FeedbackConfig(observe_every_tokens=1))
    with attach(model, cache), torch.inference_mode():
        for chunk in random_ids(1, 60).split(20, dim=1):
            model(input_ids=chunk, cache=cache, use_cache=True)
        before = cache.slots.attention.clone()
        assert cache.layout.num_faded > 0
        monkeypatch.setattr(fading_layer, "unpack_into", fail)
        model(input_ids=random_ids(1, 1), cache=cache, use_cache=True)

    assert not torch.equal(cache.slots.attention[:, : before.shape[1]], before)


def fail(*_: object) -> None:
    pytest.fail("tokens were unpacked")


def test_the_model_and_the_cache_are_as_before_behind_the_block() -> None:
    model = tiny_family("llama")
    decoder = find_decoder(model)
    cache = fading_cache(model)

    with attend_to_packed(decoder, cache):
        assert all(layer.hands_out_packed for layer in cache.layers)
        assert decoder.config._attn_implementation.startswith("sdpa_memdecay_")

    assert not any(layer.hands_out_packed for layer in cache.layers)
    assert decoder.config._attn_implementation == "sdpa"


def faded(**options: Any) -> DecayCache:
    """Return a cache of which some tokens are packed."""
    model = tiny_family("llama")
    cache = fading_cache(model, **options)
    with attach(model, cache), torch.inference_mode():
        for chunk in random_ids(1, 60).split(20, dim=1):
            model(input_ids=chunk, cache=cache, use_cache=True)
    assert cache.layout.num_faded > 0
    return cache


def hand_out(cache: DecayCache) -> tuple[Tensor, Tensor]:
    """Return what the cache's first layer gives a single token's forward."""
    with cache.handing_out_packed():
        return cache.update(*torch.randn(2, 1, 2, 1, 8), layer_idx=0)


def test_whatever_else_is_done_with_packed_states_is_done_with_the_unpacked() -> None:
    cache = faded(storage_dtype="bfloat16")

    keys, values = hand_out(cache)

    assert isinstance(keys, PackedStates)
    expected_keys, expected_values = cache.layers[0].dense(torch.float32)
    assert keys.shape == expected_keys.shape
    assert keys.dtype == torch.float32
    assert torch.equal(keys @ values.transpose(2, 3), expected_keys @ expected_values.mT)
    assert torch.equal(torch.cat([values, keys], dim=2)[:, :, -1:], expected_keys[:, :, -1:])
    assert not isinstance(keys + 0, PackedStates)


def test_values_stay_packed_where_only_keys_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    cache = faded()
    unpacked: list[str] = []

    def note(keys: Tensor | None, values: Tensor | None, _parts: object) -> None:
        unpacked.extend(name for name, own in (("k", keys), ("v", values)) if own is not None)

    monkeypatch.setattr(fading_layer, "unpack_into", note)
    keys, values = hand_out(cache)

    assert (keys + 0).shape == (keys + 1).shape
    assert unpacked == ["k"]
    assert (values + 0).shape == values.shape
    assert unpacked == ["k", "v"]


def test_a_cache_knows_the_packed_states_it_gave_last() -> None:
    cache = faded()
    first, _ = hand_out(cache)
    second, _ = hand_out(cache)

    assert cache.holds(second, 0)
    assert not cache.holds(first, 0)
    assert not cache.holds(second, 1)


def test_nothing_is_handed_out_unasked() -> None:
    keys, _ = faded().update(*torch.randn(2, 1, 2, 1, 8), layer_idx=0)

    assert not isinstance(keys, PackedStates)
