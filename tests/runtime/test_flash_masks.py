"""Attention that gets flash attention's masks: none, or a line of padding for each row.

Flash attention itself needs a GPU; a stand-in computes the same from the same arguments.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention
from transformers import AttentionInterface, AttentionMaskInterface, PreTrainedModel
from transformers.masking_utils import flash_attention_mask

from memdecay.runtime.attach import attach
from memdecay.runtime.cache import DecayCache
from memdecay.runtime.config import FadingConfig
from tests.runtime.reference import left_padded_mask, make_cache, random_ids, tiny_llama

NAME = "flash_stand_in"
CHUNKS = (20, 12, 1, 1, 20, 1, 12, 1)
EVICTING: dict[str, Any] = {"low_watermark": 0.7}
FADING: dict[str, Any] = {
    "num_recent": 8,
    "fading": FadingConfig(steps=(4, 2), num_exact=6),
}


def flash_stand_in(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float | None = None,
    **_: Any,
) -> tuple[Tensor, None]:
    """Attend causally, the newest key to the newest query, past a padding mask ``(batch, kv)``."""
    # transformers' function loads its kernel by this name.
    assert module.config._attn_implementation == NAME
    assert attention_mask is None or attention_mask.shape == (query.shape[0], key.shape[2])
    num_queries, num_keys = query.shape[2], key.shape[2]
    rows = torch.arange(num_keys - num_queries, num_keys).unsqueeze(1)
    visible = (torch.arange(num_keys) <= rows)[None, None]
    if attention_mask is not None:
        visible = visible & attention_mask[:, None, None].bool()
    output = scaled_dot_product_attention(
        query, key + 0, value + 0, attn_mask=visible, scale=scaling, enable_gqa=True
    )
    return output.transpose(1, 2).contiguous(), None


@pytest.fixture
def model() -> Iterator[PreTrainedModel]:
    """Return a model with the stand-in as its attention."""
    AttentionInterface.register(NAME, flash_stand_in)
    AttentionMaskInterface.register(NAME, flash_attention_mask)
    model = copy.deepcopy(tiny_llama())
    # Set as a name of transformers' own would be, for which it would look for a kernel.
    model.config._attn_implementation_internal = NAME
    yield model
    AttentionInterface._global_mapping.pop(NAME)
    AttentionMaskInterface._global_mapping.pop(NAME)


def run(
    model: PreTrainedModel, pad_lengths: list[int], options: dict[str, Any]
) -> tuple[list[Tensor], DecayCache]:
    """Return the last logits of each forward, and the cache."""
    cache = make_cache(model, 40, policy="memdecay", **options)
    ids, seen, logits = random_ids(len(pad_lengths), sum(CHUNKS)), 0, []
    with attach(model, cache), torch.no_grad():
        for size in CHUNKS:
            mask = left_padded_mask(pad_lengths, seen + size)
            output = model(
                input_ids=ids[:, seen : seen + size],
                attention_mask=mask,
                position_ids=(mask.cumsum(1) - 1).clamp_min(0)[:, seen:],
                cache=cache,
            )
            logits.append(output.logits[:, -1])
            seen += size
    return logits, cache


@pytest.mark.parametrize("options", [EVICTING, FADING], ids=["evicting", "fading"])
@pytest.mark.parametrize("pad_lengths", [[0], [0, 7], [11, 3]], ids=str)
def test_flash_masks_fit_what_the_cache_kept(
    model: PreTrainedModel, pad_lengths: list[int], options: dict[str, Any]
) -> None:
    ours, cache = run(model, pad_lengths, options)
    assert model.config._attn_implementation == NAME
    expected, other = run(tiny_llama(), pad_lengths, options)

    assert cache.tokens_kept < cache.tokens_seen or cache.layout.num_faded
    torch.testing.assert_close(cache.slots.positions, other.slots.positions)
    torch.testing.assert_close(ours, expected, rtol=0, atol=1e-3)
    is_real = ~cache.slots.is_pad
    torch.testing.assert_close(
        cache.slots.attention[is_real],
        other.slots.attention[is_real],
        rtol=1e-3,
        atol=1e-5,
        equal_nan=True,
    )
