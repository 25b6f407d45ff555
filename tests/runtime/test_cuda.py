"""On a GPU the caches do what they do on the CPU."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import Tensor

from memdecay.runtime.attach import attach
from memdecay.runtime.bench.speed.timing import device_clock
from memdecay.runtime.cache import DecayCache
from memdecay.runtime.config import FadingConfig
from memdecay.runtime.precision.layout import Layout

from .reference import make_cache, random_ids, tiny_llama

pytestmark = [
    pytest.mark.cuda,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]

CHUNKS = (40, 16, 16, *(1,) * 24)
PLAIN: dict[str, Any] = {"policy": "streaming"}
FADING: dict[str, Any] = {
    "policy": "memdecay",
    "num_recent": 8,
    "attention_feedback": False,
    "fading": FadingConfig(steps=(4, 2), num_exact=6),
}


def run(device: str, dtype: torch.dtype, options: dict[str, Any]) -> tuple[Tensor, DecayCache]:
    """Feed the same tokens on a device; return the last logits of each forward and the cache."""
    model = copy.deepcopy(tiny_llama()).to(device, dtype)
    cache = make_cache(model, 48, **options)
    ids = random_ids(2, sum(CHUNKS)).to(device)
    with torch.no_grad(), attach(model, cache):
        logits = [
            model(input_ids=chunk, cache=cache, use_cache=True).logits[:, -1]
            for chunk in ids.split(CHUNKS, dim=1)
        ]
    return torch.stack(logits).float().cpu(), cache


def test_an_evicting_cache_on_cuda_says_what_it_says_on_the_cpu() -> None:
    on_cuda, cache = run("cuda", torch.float32, PLAIN)
    on_cpu, expected = run("cpu", torch.float32, PLAIN)

    assert cache.layers[0].keys.is_cuda
    torch.testing.assert_close(cache.slots.positions.cpu(), expected.slots.positions)
    torch.testing.assert_close(on_cuda, on_cpu, atol=0.02, rtol=0.02)


def test_a_fading_cache_on_cuda_is_as_near_to_the_cpus_as_fading_allows() -> None:
    on_cuda, cache = run("cuda", torch.float32, FADING)
    on_cpu, expected = run("cpu", torch.float32, FADING)
    full, _ = run("cpu", torch.float32, {"policy": "full"})

    assert cache.layout == expected.layout
    torch.testing.assert_close(cache.slots.positions.cpu(), expected.slots.positions)
    # The directions of the keys may have other signs there, so that other errors are rounded off:
    # both are as far from the full cache, in directions of their own.
    assert (on_cuda - on_cpu).norm() <= 3 * (full - on_cpu).norm()


@pytest.mark.parametrize("options", [PLAIN, FADING], ids=["plain", "fading"])
def test_bfloat16_on_cuda_keeps_within_the_bytes_of_the_budget(options: dict[str, Any]) -> None:
    logits, cache = run("cuda", torch.bfloat16, options)

    assert logits.isfinite().all()
    assert cache.layers[0].keys.dtype == torch.bfloat16
    assert cache.peak_bytes <= 48 * cache.bytes_per_token
    assert cache.tokens_kept < sum(CHUNKS)


def test_a_fading_cache_on_cuda_holds_packed_tokens() -> None:
    _, cache = run("cuda", torch.bfloat16, FADING)

    layout = cache.layout
    assert isinstance(layout, Layout)
    assert layout.num_faded > 0
    assert cache.allocated_bytes <= 48 * cache.bytes_per_token


def test_attention_is_watched_on_cuda() -> None:
    _, cache = run("cuda", torch.bfloat16, {**FADING, "attention_feedback": True})

    assert cache.slots.attention.is_cuda
    assert (cache.slots.attention.nan_to_num(nan=0.0) > 0).any()


def test_the_clock_waits_for_the_device() -> None:
    device = torch.device("cuda")
    matrix = torch.randn(4096, 4096, device=device)
    now = device_clock(device)
    now()
    for _ in range(20):
        matrix = matrix @ matrix / 64
    done = torch.cuda.Event()
    done.record()

    now()

    assert done.query()
