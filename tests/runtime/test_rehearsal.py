"""Kernels are loaded before the first token fades, and nothing else comes of it."""

from __future__ import annotations

import gc
import json
import logging
import subprocess
import sys
from dataclasses import replace
from typing import Any

import pytest
import torch

from memdecay.classifier.decoder import find_decoder
from memdecay.runtime import rehearsal
from memdecay.runtime.attach import attach
from memdecay.runtime.config import CacheConfig, FadingConfig
from memdecay.runtime.rehearsal import _Heads, _rehearse, rehearse_fading
from memdecay.runtime.session import Session
from tests.runtime.reference import make_cache, random_ids, tiny_llama
from tests.tiny import tiny_language_model

pytest.importorskip("numba")

HEADS = _Heads(4, 2, 8, torch.float32, torch.float32, (2, 4))
FADING = FadingConfig(steps=(4, 2), num_exact=4)

FIRST_FADE = """
import json, sys
import torch
from memdecay.classifier.decoder import find_decoder
from memdecay.runtime.attach import attach
from memdecay.runtime.config import FadingConfig
from memdecay.runtime.rehearsal import rehearse_fading
from tests.runtime.reference import left_padded_mask, make_cache, random_ids, tiny_llama

KERNELS = "memdecay.runtime.precision.kernels.cpu."

def loaded():
    # Compiled versions of each kernel, and the modules that hold kernels or make them.
    found = {}
    for module_name, module in list(sys.modules.items()):
        if module_name.startswith(KERNELS):
            for name, value in vars(module).items():
                if hasattr(value, "overloads"):
                    found[f"{module_name}.{name}"] = len(value.overloads)
    modules = [name for name in sys.modules if name.startswith(("numba", "llvmlite", "memdecay"))]
    return {"kernels": found, "modules": sorted(modules)}

def fade(storage_dtype, pad_lengths, chunks):
    model = tiny_llama()
    cache = make_cache(
        model, 40, policy="memdecay", num_recent=8, storage_dtype=storage_dtype,
        fading=FadingConfig(steps=(4, 2), num_exact=6),
    )
    attended = [0]
    attend = cache.attend
    def counting(*args):
        attended[0] += 1
        return attend(*args)
    cache.attend = counting
    ids, start = random_ids(len(pad_lengths), sum(chunks)), 0
    with attach(model, cache), torch.inference_mode():
        for size in chunks:
            mask = left_padded_mask(pad_lengths, start + size)
            positions = (mask.cumsum(1) - 1).clamp_min(0)[:, -size:]
            model(input_ids=ids[:, start : start + size], attention_mask=mask,
                  position_ids=positions, cache=cache, use_cache=True)
            start += size
    return attended[0], list(cache.layout.counts)

looks = []
for storage_dtype in (None, "bfloat16"):
    model = tiny_llama()
    empty = make_cache(model, 40, policy="memdecay", storage_dtype=storage_dtype,
                       fading=FadingConfig(steps=(4, 2)))
    before = loaded()
    rehearse_fading(find_decoder(model), empty)
    rehearsed = loaded()
    runs = [fade(storage_dtype, pads, (20,) * 9 + (1, 1, 8, 1, 1)) for pads in ([0], [0, 5, 3])]
    looks.append({"before": before, "rehearsed": rehearsed, "faded": loaded(), "runs": runs})
print(json.dumps(looks))
"""


def test_the_first_fade_of_a_process_loads_no_kernel() -> None:
    done = subprocess.run(
        [sys.executable, "-c", FIRST_FADE], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    looks = json.loads(done.stdout)
    assert not any(name.startswith("numba") for name in looks[0]["before"]["modules"])
    for look in looks:
        before, rehearsed, faded = (look[name] for name in ("before", "rehearsed", "faded"))
        assert sum(rehearsed["kernels"].values()) > sum(before["kernels"].values())
        assert faded == rehearsed
        for num_attended, counts in look["runs"]:
            assert num_attended > 0
            assert min(counts) > 0  # tokens stand at every step


@pytest.mark.parametrize("storage", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("steps", [(4,), (2, 4), (2, 4, 8)])
@pytest.mark.parametrize(("num_heads", "num_key_heads", "dim"), [(4, 2, 8), (1, 1, 64), (8, 1, 24)])
def test_heads_of_every_kind_are_rehearsed(
    storage: torch.dtype, steps: tuple[int, ...], num_heads: int, num_key_heads: int, dim: int
) -> None:
    _rehearse.__wrapped__(_Heads(num_heads, num_key_heads, dim, torch.float32, storage, steps))


def test_heads_that_cannot_fade_are_left_to_the_cache() -> None:
    heads = replace(HEADS, dim=20)
    assert not heads.can_fade
    _rehearse.__wrapped__(heads)


def test_it_leaves_model_cache_and_random_numbers_alone() -> None:
    model = tiny_llama()
    cache = make_cache(model, 40, policy="memdecay", fading=FADING)
    state, hooks = torch.get_rng_state(), len(find_decoder(model)._forward_hooks)
    _rehearse.__wrapped__(HEADS)
    rehearse_fading(find_decoder(model), cache)

    assert torch.equal(torch.get_rng_state(), state)
    assert len(find_decoder(model)._forward_hooks) == hooks
    assert (cache.tokens_seen, cache.allocated_bytes, cache.peak_bytes) == (0, 0, 0)


def test_it_leaves_nothing_in_memory() -> None:
    def tensor_bytes() -> int:
        gc.collect()
        tensors = {
            each.untyped_storage().data_ptr(): each.untyped_storage().nbytes()
            for each in gc.get_objects()
            if type(each) is torch.Tensor
        }
        return sum(tensors.values())

    _rehearse.__wrapped__(HEADS)  # Fills what later fading reads too: tables, rotations.
    before = tensor_bytes()
    for _ in range(3):
        _rehearse.__wrapped__(HEADS)
    assert tensor_bytes() == before


def test_what_a_session_says_is_the_same_with_it_and_without(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def logits() -> torch.Tensor:
        model = tiny_llama()
        cache = make_cache(model, 24, policy="memdecay", fading=FADING)
        ids = random_ids(1, 64)
        with attach(model, cache), torch.inference_mode():
            for start in range(0, 64, 8):
                out = model(ids[:, start : start + 8], cache=cache)
        return torch.as_tensor(out.logits)

    _rehearse.cache_clear()
    rehearsed = logits()
    monkeypatch.setattr("memdecay.runtime.attach.rehearse_fading", lambda *_: None)
    assert torch.equal(rehearsed, logits())


@pytest.fixture
def rehearsed(monkeypatch: pytest.MonkeyPatch) -> list[_Heads]:
    """Return what was rehearsed, without rehearsing it."""
    kinds: list[_Heads] = []
    monkeypatch.setattr(rehearsal, "_rehearse", kinds.append)
    return kinds


@pytest.mark.parametrize(
    "options",
    [{"policy": "tova"}, {"policy": "full"}, {"fading": FadingConfig(steps=())}],
)
def test_a_cache_that_does_not_fade_loads_nothing(
    options: dict[str, Any], rehearsed: list[_Heads]
) -> None:
    options = {"policy": "memdecay", "fading": FADING, **options}
    rehearse_fading(find_decoder(tiny_llama()), make_cache(tiny_llama(), 40, **options))
    assert not rehearsed


def test_without_a_kernel_there_is_nothing_to_load(
    rehearsed: list[_Heads], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rehearsal, "find_kernel", lambda _: None)
    cache = make_cache(tiny_llama(), 40, policy="memdecay", fading=FADING)
    rehearse_fading(find_decoder(tiny_llama()), cache)
    assert not rehearsed


def test_a_session_and_an_attached_cache_rehearse_for_their_heads(rehearsed: list[_Heads]) -> None:
    llm = tiny_language_model()
    Session(llm, CacheConfig(96, num_recent=12, storage_dtype="bfloat16"))
    assert rehearsed == [_Heads(4, 2, 8, torch.float32, torch.bfloat16, (2, 4))]
    model = tiny_llama()
    with attach(model, make_cache(model, 40, policy="memdecay", fading=FADING)):
        assert rehearsed[1:] == [HEADS]


def test_the_log_tells_once_how_long_it_took(caplog: pytest.LogCaptureFixture) -> None:
    cache = make_cache(tiny_llama(), 40, policy="memdecay", fading=FADING)
    _rehearse.cache_clear()
    with caplog.at_level(logging.INFO, "memdecay.runtime.rehearsal"):
        rehearse_fading(find_decoder(tiny_llama()), cache)
        rehearse_fading(find_decoder(tiny_llama()), cache)
    assert [record.message for record in caplog.records if "prepared" in record.message]
    assert len(caplog.records) == 1
