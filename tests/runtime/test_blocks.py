"""Scores shared in blocks of neighbouring tokens."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from memdecay.retention import block_scores
from memdecay.runtime.attach import attach
from memdecay.runtime.blocks import block_numbers, share_in_blocks
from memdecay.runtime.config import FadingConfig

from .reference import make_cache, random_ids, tiny_llama


@given(st.lists(st.floats(-50, 50), min_size=1, max_size=60), st.integers(1, 20))
def test_whole_text_scores_as_the_engine_neutral_blocks(
    scores: list[float], block_tokens: int
) -> None:
    values = torch.tensor([scores], dtype=torch.float64)
    shared = share_in_blocks(values, torch.arange(len(scores))[None], block_tokens)[0]

    expected = block_scores(values[0].numpy(), block_tokens)
    assert shared.tolist() == pytest.approx(
        [expected[place // block_tokens] for place in range(len(scores))]
    )


def test_what_was_forgotten_of_a_block_counts_for_nothing() -> None:
    scores = torch.tensor([[0.0, math.log(3.0), 5.0]])
    shared = share_in_blocks(scores, torch.tensor([[4, 7, 9]]), 4)

    assert shared[0].tolist() == pytest.approx([math.log(2.0), math.log(2.0), 5.0])


def test_padding_stays_out() -> None:
    scores = torch.tensor([[-math.inf, 1.0], [2.0, 4.0]])
    shared = share_in_blocks(scores, torch.tensor([[0, 1], [0, 9]]), 2)

    assert shared.tolist() == [[-math.inf, 1.0], [2.0, 4.0]]


def test_numbers_tell_blocks_apart_and_padding_from_both() -> None:
    positions = torch.tensor([[0, 1, 2, 9, 5], [0, 4, 5, 6, 8]])
    is_pad = torch.tensor([[True, True, False, False, False], [False] * 5])

    numbers = block_numbers(positions, is_pad, 4)

    assert numbers is not None
    assert numbers.tolist() == [[0, 0, 1, 3, 2], [1, 2, 2, 2, 3]]
    assert block_numbers(positions, is_pad, 1) is None


def test_fading_forgets_whole_blocks_but_fades_single_tokens() -> None:
    model = tiny_llama()
    cache = make_cache(
        model,
        40,
        policy="memdecay",
        block_tokens=8,
        num_recent=8,
        num_sinks=0,
        attention_feedback=False,
        fading=FadingConfig(steps=(4, 2), num_exact=8),
    )
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad(), attach(model, cache):
        for start in range(0, 320, 8):
            ids = random_ids(1, 320)[:, start : start + 8]
            model(input_ids=ids, cache=cache, use_cache=True)
            importance = torch.exp(24 * torch.rand((1, 8), generator=generator))
            probs = torch.nn.functional.one_hot(torch.zeros(1, 8, dtype=torch.int64), 5)
            cache.set_tags(start, importance, probs.float())

    positions = cache.slots.positions[0]
    blocks, counts = torch.unique(positions // 8, return_counts=True)
    assert len(blocks) < 320 // 8
    assert bool((counts == 8).all())
    at_2, at_4, _ = cache.layout.counts
    coarse, fine = positions[:at_2] // 8, positions[at_2 : at_2 + at_4] // 8
    assert set(coarse.tolist()) & set(fine.tolist())


def test_tokens_are_forgotten_in_whole_blocks() -> None:
    model = tiny_llama()
    cache = make_cache(
        model, 48, policy="memdecay", block_tokens=8, num_recent=8, num_sinks=0, low_watermark=0.5
    )
    with torch.no_grad(), attach(model, cache):
        for start in range(0, 88, 8):
            ids = random_ids(1, 88)[:, start : start + 8]
            model(input_ids=ids, cache=cache, use_cache=True)

    blocks, counts = torch.unique(cache.slots.positions[0] // 8, return_counts=True)
    # One block at most is cut, where the room ends.
    assert len(blocks) < 88 // 8
    assert sum(counts != 8) <= 1
