from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.attention.flex_attention import BlockMask, create_block_mask
from transformers import AttentionInterface, AttentionMaskInterface, DynamicCache

from memdecay.runtime.attach import attach
from memdecay.runtime.attention_mass import attention_mass
from memdecay.runtime.config import FeedbackConfig
from memdecay.runtime.observer import observe_attention
from tests.runtime.reference import left_padded_mask, make_cache, random_ids, tiny_llama


def eager_attentions(ids: Tensor, mask: Tensor) -> tuple[Tensor, ...]:
    """Return every layer's attention, each ``(batch, heads, q, kv)``, from the stock model."""
    positions = (mask.cumsum(1) - 1).clamp_min(0)
    output = tiny_llama("eager")(
        ids, attention_mask=mask, position_ids=positions, output_attentions=True
    )
    attentions: tuple[Tensor, ...] = output.attentions
    return attentions


def forward(model: Any, cache: Any, ids: Tensor, mask: Tensor, start: int = 0) -> Tensor:
    positions = (mask.cumsum(1) - 1).clamp_min(0)
    logits: Tensor = model(
        input_ids=ids[:, start:],
        attention_mask=mask,
        position_ids=positions[:, start:],
        cache=cache,
    ).logits
    return logits


@pytest.mark.parametrize("implementation", ["sdpa", "eager"])
@pytest.mark.parametrize("pad_lengths", [[0], [0, 3, 9]])
@torch.no_grad()
def test_prefill_observes_the_attention_of_the_last_queries(
    implementation: str, pad_lengths: list[int]
) -> None:
    model = tiny_llama(implementation)
    feedback = FeedbackConfig(layers=(0, 2), window_queries=5)
    cache = make_cache(model, 64, policy="memdecay", feedback=feedback)
    ids, mask = random_ids(len(pad_lengths), 20), left_padded_mask(pad_lengths, 20)

    with attach(model, cache):
        forward(model, cache, ids, mask)

    attentions = eager_attentions(ids, mask)
    window = (attentions[0] + attentions[2])[:, :, -5:].mean(dim=1) / 2
    num_viewers = torch.tensor([5.0] * 16 + [4.0, 3.0, 2.0, 1.0])
    expected = (window.sum(dim=1) / num_viewers) * mask
    torch.testing.assert_close(cache.slots.attention, expected, rtol=1e-4, atol=1e-6)


@torch.no_grad()
def test_decode_observes_every_few_tokens() -> None:
    model = tiny_llama()
    feedback = FeedbackConfig(layers=(1,), observe_every_tokens=3, half_life_tokens=3.0)
    cache = make_cache(model, 64, policy="memdecay", feedback=feedback)
    ids = random_ids(1, 16)
    mask = torch.ones_like(ids)

    with attach(model, cache):
        forward(model, cache, ids[:, :10], mask[:, :10])
        for end in range(11, 17):
            forward(model, cache, ids[:, :end], mask[:, :end], start=end - 1)

    attention = eager_attentions(ids, mask)[1].mean(dim=1)[0]
    assert cache.slots.attention.isnan().tolist() == [[False] * 16]
    # Queries 12 and 15 were observed; half of the average is the newest of them.
    seen_once = attention[12, 10:13] / 2 + attention[15, 10:13] / 2
    torch.testing.assert_close(cache.slots.attention[0, 10:13], seen_once, rtol=1e-4, atol=1e-6)
    torch.testing.assert_close(
        cache.slots.attention[0, 13:], attention[15, 13:], rtol=1e-4, atol=1e-6
    )


@pytest.mark.parametrize("implementation", ["sdpa", "eager"])
def test_observing_leaves_the_logits_and_the_model_as_they_were(implementation: str) -> None:
    model = tiny_llama(implementation)
    ids, mask = random_ids(2, 20), left_padded_mask([0, 6], 20)
    attention_names = set(AttentionInterface())
    mask_names = set(AttentionMaskInterface())
    plain = forward(model, DynamicCache(config=model.config), ids, mask)
    cache = make_cache(model, 64, policy="memdecay")

    with observe_attention(model.model, cache):
        observed = forward(model, cache, ids, mask)

    is_real = mask.bool()
    torch.testing.assert_close(observed[is_real], plain[is_real], rtol=0, atol=1e-5)
    assert model.config._attn_implementation == implementation
    assert set(AttentionInterface()) == attention_names
    assert set(AttentionMaskInterface()) == mask_names


def test_model_is_put_back_when_the_block_fails() -> None:
    model = tiny_llama()
    cache = make_cache(model, 64, policy="memdecay")

    with pytest.raises(RuntimeError, match="in the block"), attach(model, cache):
        raise RuntimeError("in the block")

    assert model.config._attn_implementation == "sdpa"
    assert not model.model._forward_hooks
    assert not model.model._forward_pre_hooks


def test_forwards_with_another_cache_are_not_observed() -> None:
    model = tiny_llama()
    cache, other = make_cache(model, 64, policy="memdecay"), make_cache(model, 64)
    ids = random_ids(1, 12)

    with attach(model, cache):
        forward(model, other, ids, torch.ones_like(ids))
        forward(model, DynamicCache(config=model.config), ids, torch.ones_like(ids))
        forward(model, cache, ids[:, :4], torch.ones(1, 4))

    assert cache.tokens_seen == 4
    assert other.slots.attention.isnan().all()


@pytest.mark.parametrize(
    "options", [{"attention_feedback": False, "policy": "memdecay"}, {"policy": "region"}]
)
def test_attention_is_left_alone_without_feedback(options: dict[str, Any]) -> None:
    model = tiny_llama()
    cache = make_cache(model, 64, **options)
    ids = random_ids(1, 12)

    with attach(model, cache):
        implementation = model.config._attn_implementation
        forward(model, cache, ids, torch.ones_like(ids))

    assert implementation == "sdpa"
    assert cache.slots.attention.isnan().all()


def test_layer_without_full_attention_is_refused() -> None:
    model = tiny_llama()
    feedback = FeedbackConfig(layers=(1, 7))
    cache = make_cache(model, 64, policy="memdecay", feedback=feedback)

    with pytest.raises(ValueError, match=r"layer 7 of feedback\.layers"), attach(model, cache):
        pass
    assert model.config._attn_implementation == "sdpa"


@pytest.mark.parametrize("kind", ["none", "bool", "additive", "padding", "block", "other"])
def test_every_kind_of_mask_gives_the_same_mass(kind: str) -> None:
    generator = torch.Generator().manual_seed(0)
    query = torch.randn(2, 4, 3, 8, generator=generator)
    key = torch.randn(2, 2, 6, 8, generator=generator)
    causal = (torch.arange(6) <= torch.arange(3, 6).unsqueeze(1)).expand(2, 1, 3, 6)
    masks = {
        "none": None,
        "bool": causal,
        "additive": torch.where(causal, 0.0, torch.finfo(torch.float32).min),
        "padding": torch.ones(2, 6),
        "block": block_mask(lambda _b, _h, q, k: k <= q + 3),
        "other": object(),
    }

    mass = attention_mass(query, key, masks[kind], scaling=0.3, softcap=2.0)

    logits = query @ key.repeat_interleave(2, dim=1).transpose(2, 3) * 0.3
    logits = (2.0 * torch.tanh(logits / 2.0)).masked_fill(~causal, -torch.inf)
    viewers = torch.tensor([3.0, 3.0, 3.0, 3.0, 2.0, 1.0])
    torch.testing.assert_close(mass, logits.softmax(-1).mean(1).sum(1) / viewers)


def block_mask(mask_mod: Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]) -> BlockMask:
    """Return flex attention's mask of three queries behind three keys in two rows."""
    return create_block_mask(mask_mod, B=2, H=None, Q_LEN=3, KV_LEN=6, device="cpu")


def test_padding_in_a_block_mask_gets_no_attention() -> None:
    generator = torch.Generator().manual_seed(0)
    query = torch.randn(2, 4, 3, 8, generator=generator)
    key = torch.randn(2, 2, 6, 8, generator=generator)
    num_pads = torch.tensor([0, 2])
    mask = block_mask(lambda b, _h, q, k: (k <= q + 3) & (k >= num_pads[b]))
    causal = torch.arange(6) <= torch.arange(3, 6).unsqueeze(1)
    as_tensor = (causal & (torch.arange(6) >= num_pads.view(2, 1, 1)))[:, None]

    mass = attention_mass(query, key, mask)

    torch.testing.assert_close(mass, attention_mass(query, key, as_tensor))
    assert mass[1, :2].tolist() == [0.0, 0.0]
    # The newest query alone: its line of the mask is the last one.
    newest = attention_mass(query[:, :, -1:], key, mask)
    torch.testing.assert_close(newest, attention_mass(query[:, :, -1:], key, as_tensor[:, :, -1:]))


def test_default_scaling_is_that_of_the_head_dim() -> None:
    query, key = torch.randn(1, 2, 3, 16), torch.randn(1, 2, 5, 16)

    mass = attention_mass(query, key, None)

    torch.testing.assert_close(mass, attention_mass(query, key, None, scaling=0.25))


def test_visited_tokens_outlive_unvisited_ones() -> None:
    cache = make_cache(tiny_llama(), 40, low_watermark=0.5, policy="memdecay", num_recent=2)
    states = torch.zeros(1, 2, 39, 8)
    for layer_idx in range(3):
        cache.update(states, states, layer_idx)
    mass = torch.full((1, 39), 0.01)
    mass[0, 5:10] = 0.1
    cache.observe_attention(mass, 1.0)
    for layer_idx in range(3):
        cache.update(states[:, :, :1], states[:, :, :1], layer_idx)

    cache.evict()

    assert {5, 6, 7, 8, 9} <= set(cache.slots.positions[0].tolist())


def masks_of_chunks(attentions: tuple[Tensor, ...]) -> Tensor:
    """Average the eager attention over layers and heads, ``(q, kv)``."""
    return torch.stack(attentions).mean(dim=(0, 2))[0]


@pytest.mark.parametrize("policy", ["h2o", "tova", "snapkv"])
@torch.no_grad()
def test_policies_see_all_layers_and_their_own_queries(policy: str) -> None:
    model = tiny_llama()
    cache = make_cache(model, 128, policy=policy)
    ids = random_ids(1, 90)
    mask = torch.ones_like(ids)

    with attach(model, cache):
        forward(model, cache, ids[:, :40], mask[:, :40])
        forward(model, cache, ids[:, :80], mask[:, :80], start=40)
        for end in range(81, 91):
            forward(model, cache, ids[:, :end], mask[:, :end], start=end - 1)

    attention = masks_of_chunks(eager_attentions(ids, mask))
    observed = cache.slots.attention[0]
    if policy == "h2o":
        torch.testing.assert_close(observed, attention.sum(dim=0), rtol=1e-4, atol=1e-5)
    elif policy == "tova":
        torch.testing.assert_close(observed, attention[-1], rtol=1e-4, atol=1e-6)
    else:
        # The window of the second chunk, then ten queries that weigh 1/32 each.
        expected = attention[48:80, :40].mean(dim=0)
        for query in range(80, 90):
            expected = expected * 31 / 32 + attention[query, :40] / 32
        torch.testing.assert_close(observed[:40], expected, rtol=1e-4, atol=1e-6)


@torch.no_grad()
def test_attaching_again_keeps_the_average() -> None:
    model = tiny_llama()
    feedback = FeedbackConfig(layers=(1,), half_life_tokens=1000.0)
    cache = make_cache(model, 128, policy="memdecay", feedback=feedback)
    ids = random_ids(1, 72)
    mask = torch.ones_like(ids)

    for start, end in ((0, 64), (64, 72)):
        with attach(model, cache):
            forward(model, cache, ids[:, :end], mask[:, :end], start=start)

    attention = eager_attentions(ids, mask)[1].mean(dim=1)[0]
    new_weight = 1 - 0.5 ** (8 / 1000)
    old, new = attention[32:64, :32].mean(dim=0), attention[64:, :32].mean(dim=0)
    expected = torch.lerp(old, new, new_weight)
    torch.testing.assert_close(cache.slots.attention[0, :32], expected, rtol=1e-4, atol=1e-6)
