"""Every precision, model and attention against the same quantization of a full cache, and a mask.

The quantization itself is checked in the tests of `memdecay.runtime.precision`; here it is what the
cache does with it: which tokens, in which basis, at which positions, moved how often.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor
from transformers import PreTrainedModel

from memdecay.runtime.attach import attach
from memdecay.runtime.cache import DecayCache
from memdecay.runtime.config import FadingConfig
from tests.runtime.families import FAMILIES, SLIDING_WINDOW, tiny_family
from tests.runtime.quantized_twin import QuantizedTwin
from tests.runtime.reference import make_cache, random_ids, tiny_llama
from tests.runtime.test_fading_cache import tag_unevenly

CHUNKS = (30, 10, 1, 1, 20, 20, 1, 20, 20, 20, 7, 1, 1)
STEPS = [(8,), (4,), (2,), (8, 4), (4, 2), (8, 2), (8, 4, 2)]


def differences(
    model: PreTrainedModel,
    steps: tuple[int, ...],
    pad_lengths: list[int],
    sliding_window: int | None = None,
    *,
    is_quantized: bool = True,
    **options: Any,
) -> tuple[Tensor, DecayCache]:
    """Feed both caches; return how far all logits are apart, and the decaying cache."""
    options = {"attention_feedback": False, "num_recent": 8, **options}
    fading = FadingConfig(steps=steps, num_exact=6)
    cache = make_cache(model, 48, policy="memdecay", fading=fading, **options)
    ids = random_ids(len(pad_lengths), sum(CHUNKS))
    twin = QuantizedTwin(model, cache, ids, pad_lengths, sliding_window)
    if not is_quantized:
        twin.bits.zero_()  # All count as coarser already.
    found = []
    with attach(model, cache), torch.inference_mode():
        for number, size in enumerate(CHUNKS):
            ours, theirs = twin.feed(size)
            found.append((ours - theirs).abs().flatten())
            tag_unevenly(cache, size, seed=number)
    assert all(count > 0 for count in cache.layout.counts)
    assert cache.tokens_kept < sum(CHUNKS)
    return torch.cat(found), cache


def compare(*args: Any, **options: Any) -> DecayCache:
    """Feed both caches and compare the logits of all forwards; return the decaying cache.

    Where a number lies between two codes, the last bit of a sum decides which it gets, so a token
    of the two caches may be a code apart, and all that attends to it differs: see what a missing
    quantization does in `test_the_comparison_can_fail`.
    """
    found, cache = differences(*args, **options)
    assert found.median() < 1e-3
    assert found.mean() < 0.005
    return cache


@pytest.mark.parametrize(
    ("pad_lengths", "storage_dtype"),
    [([0], None), ([3, 0], "bfloat16"), ([0, 5], "float16")],
    ids=["one row", "bfloat16", "float16"],
)
@pytest.mark.parametrize("steps", STEPS, ids=str)
def test_every_precision(
    steps: tuple[int, ...], pad_lengths: list[int], storage_dtype: str | None
) -> None:
    cache = compare(tiny_llama(), steps, pad_lengths, storage_dtype=storage_dtype)

    assert cache.peak_bytes <= 48 * cache.bytes_per_token


@pytest.mark.parametrize(("family", "implementation"), FAMILIES)
def test_every_family_and_attention(family: str, implementation: str) -> None:
    model = tiny_family(family, implementation)
    window = SLIDING_WINDOW if family.startswith("gemma") else None

    compare(model, (4, 2), [0], window)


@pytest.mark.parametrize("options", [{"attention_feedback": True}, {"block_tokens": 4}], ids=str)
def test_attention_feedback_and_blocks(options: dict[str, Any]) -> None:
    compare(tiny_llama(), (4, 2), [3, 0], **options)


@pytest.mark.parametrize("steps", [(8,), (8, 4, 2)], ids=str)
def test_the_comparison_can_fail(steps: tuple[int, ...]) -> None:
    found, _ = differences(tiny_llama(), steps, [0], is_quantized=False)

    assert found.median() > 5e-3
    assert found.mean() > 0.01
