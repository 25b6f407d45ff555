"""Query heads that share a key head get the same attention with and without copies of the keys."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from transformers.integrations.sdpa_attention import sdpa_attention_forward

from memdecay.runtime.grouped_attention import attend_in_groups, can_share_keys

NUM_KEY_HEADS, GROUP, WIDTH = 3, 2, 16
SCALING = 0.3


class Layer(nn.Module):
    """What transformers' function asks of an attention layer."""

    num_key_value_groups = GROUP
    is_causal = True


def states(batch_size: int, num_queries: int, num_kept: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return queries, and keys and values that are the front of longer buffers."""
    query = torch.randn(batch_size, num_queries, NUM_KEY_HEADS * GROUP, WIDTH).transpose(1, 2)
    buffers = torch.randn(2, batch_size, NUM_KEY_HEADS, num_kept + 5, WIDTH)
    keys, values = buffers[:, :, :, :num_kept]
    return query, keys, values


def causal(num_queries: int, num_kept: int) -> Tensor:
    newest = torch.arange(num_kept - num_queries, num_kept).unsqueeze(1)
    return (torch.arange(num_kept) <= newest)[None, None]


def added(mask: Tensor) -> Tensor:
    return torch.zeros(mask.shape).masked_fill(~mask, torch.finfo(torch.float32).min)


@pytest.mark.parametrize("batch_size", [1, 2])
@pytest.mark.parametrize(
    ("num_queries", "num_kept", "mask"),
    [
        (7, 100, causal(7, 100)),
        (40, 700, added(causal(40, 700))),
        (200, 200, causal(200, 200)),
        (33, 33, None),
        (1, 300, None),
    ],
)
def test_attention_is_the_same_to_the_last_bit(
    batch_size: int, num_queries: int, num_kept: int, mask: Tensor | None
) -> None:
    query, key, value = states(batch_size, num_queries, num_kept)
    kwargs: dict[str, Any] = {"scaling": SCALING, "dropout": 0.0}
    assert can_share_keys(sdpa_attention_forward, query, key, mask, kwargs)
    with torch.no_grad():
        found, weights = attend_in_groups(Layer(), query, key, value, mask, **kwargs)
        expected, _ = sdpa_attention_forward(Layer(), query, key, value, mask, **kwargs)
    assert weights is None
    assert found.is_contiguous()
    assert torch.equal(found, expected)


def test_a_layer_that_looks_ahead_still_does() -> None:
    query, key, value = states(1, 9, 9)
    found, _ = attend_in_groups(Layer(), query, key, value, None, is_causal=False)
    expected, _ = sdpa_attention_forward(Layer(), query, key, value, None, is_causal=False)
    assert torch.equal(found, expected)
    assert not torch.equal(found, attend_in_groups(Layer(), query, key, value, None)[0])


@pytest.mark.parametrize("name", ["softcap", "position_bias", "s_aux"])
def test_what_else_counts_is_left_to_the_model(name: str) -> None:
    query, key, _ = states(1, 3, 9)
    mask = causal(3, 9)
    assert can_share_keys(sdpa_attention_forward, query, key, mask, {name: None})
    assert not can_share_keys(sdpa_attention_forward, query, key, mask, {name: 1.0})
    assert not can_share_keys(sdpa_attention_forward, query, key, mask, {"dropout": 0.1})


def test_what_it_does_not_do_is_left_to_the_model() -> None:
    query, key, _ = states(2, 3, 9)
    mask = causal(3, 9)

    def can_share(
        query: Tensor, key: Tensor, mask: Any, base: Any = sdpa_attention_forward
    ) -> bool:
        return can_share_keys(base, query, key, mask, {})

    assert can_share(query, key, mask)
    assert not can_share(query, key, mask, base=lambda: None)
    assert not can_share(query, key, None)  # Queries in front of keys: room that is still empty.
    assert not can_share(query, key, mask.expand(2, -1, -1, -1))
    assert not can_share(query, key, mask.expand(-1, NUM_KEY_HEADS * GROUP, -1, -1))
    assert not can_share(query[:, :, :1], key, mask[:, :, :1])
    assert not can_share(query[:, :NUM_KEY_HEADS], key, mask)
    assert not can_share(query.clone().requires_grad_(), key, mask)
    assert not can_share(query.to("meta"), key.to("meta"), mask)
