"""The plan spends its bytes where they are worth most."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from memdecay.runtime.fading import Step, plan_fading
from memdecay.runtime.precision.layout import Layout, Move

STEPS = (Step(2, 0.15, 0.1), Step(4, 0.3, 0.005), Step(16, 1.0, 0.0))
BITS = (2, 4, 16)


def steps_of(move: Move) -> dict[int, int]:
    """Return the bits of every token that is kept in the first row."""
    return {
        place: bits
        for bits, start, stop in move.after.ranges()
        for place in move.indices[0, start:stop].tolist()
    }


def cost_of(move: Move) -> float:
    return sum(step.cost * count for step, count in zip(STEPS, move.after.counts, strict=True))


def unprotected(num_tokens: int, rows: int = 1) -> torch.Tensor:
    return torch.zeros(rows, num_tokens, dtype=torch.bool)


@given(
    worth=st.lists(st.floats(-8, 8), min_size=1, max_size=40),
    share=st.floats(0.05, 1.0),
    faded=st.tuples(st.floats(0, 0.5), st.floats(0, 0.5)),
)
def test_budget_holds_and_nothing_becomes_finer(
    worth: list[float], share: float, faded: tuple[float, float]
) -> None:
    num = len(worth)
    low, mid = int(faded[0] * num), int(faded[1] * num)
    layout = Layout(BITS, (low, mid, num - low - mid))
    present = [bits for bits, start, stop in layout.ranges() for _ in range(start, stop)]

    move = plan_fading(torch.tensor([worth]), layout, STEPS, unprotected(num), share * num)

    assert cost_of(move) <= share * num + 1e-6
    assert all(bits <= present[place] for place, bits in steps_of(move).items())
    assert len(set(move.indices[0].tolist())) == move.after.num_tokens
    for _, start, stop in move.after.ranges():
        places = move.indices[0, start:stop]
        assert torch.equal(places, places.sort().values)


@given(
    worth=st.lists(st.floats(-6, 6), min_size=2, max_size=30, unique=True), share=st.floats(0.1, 1)
)
def test_a_more_useful_token_is_never_coarser(worth: list[float], share: float) -> None:
    layout = Layout.all_full(BITS, len(worth))

    move = plan_fading(
        torch.tensor([worth]), layout, STEPS, unprotected(len(worth)), share * len(worth)
    )

    bits = [steps_of(move).get(place, 0) for place in range(len(worth))]
    ranked = [bits[place] for place in sorted(range(len(worth)), key=worth.__getitem__)]
    assert ranked == sorted(ranked)


@given(worth=st.lists(st.floats(-3, 3), min_size=1, max_size=5), share=st.floats(0.2, 0.9))
def test_no_cheaper_choice_of_all_loses_less(worth: list[float], share: float) -> None:
    """The plan is the best of all choices that cost no more than it does."""
    num = len(worth)
    move = plan_fading(
        torch.tensor([worth]), Layout.all_full(BITS, num), STEPS, unprotected(num), share * num
    )
    options = {0: (0.0, 1.0), **{step.bits: (step.cost, step.noise) for step in STEPS}}

    def loss(bits: tuple[int, ...]) -> float:
        return sum(math.exp(w) * options[b][1] for w, b in zip(worth, bits, strict=True))

    chosen = tuple(steps_of(move).get(place, 0) for place in range(num))
    rivals = itertools.product(options, repeat=num)
    cheap = [bits for bits in rivals if sum(options[b][0] for b in bits) <= cost_of(move) + 1e-6]
    assert loss(chosen) <= min(map(loss, cheap)) * (1 + 1e-3) + 1e-6


def test_protected_tokens_stay_as_they_are_even_over_the_budget() -> None:
    protected = torch.tensor([[True, False, True, False]])

    move = plan_fading(torch.zeros(1, 4), Layout.all_full(BITS, 4), STEPS, protected, 0.5)

    assert steps_of(move) == {0: 16, 2: 16}


def test_floors_hold_for_what_is_kept() -> None:
    floor = torch.tensor([[4, 4, 4, 4, 0, 0, 0, 0]])
    worth = torch.zeros(1, 8)

    move = plan_fading(worth, Layout.all_full(BITS, 8), STEPS, unprotected(8), 2.0, floor)

    assert all(bits >= 4 for place, bits in steps_of(move).items() if place < 4)


def test_unforgettable_tokens_fade_but_stay() -> None:
    stays = torch.tensor([[True, True, False, False]])
    worth = torch.tensor([[-9.0, -9.0, 9.0, 9.0]])

    move = plan_fading(
        worth, Layout.all_full(BITS, 4), STEPS, unprotected(4), 0.6, is_unforgettable=stays
    )

    assert {0, 1} <= set(steps_of(move))


def test_rows_keep_as_many_tokens_at_every_step() -> None:
    worth = torch.tensor([[5.0, 5.0, 5.0, 5.0, -5.0, -5.0], [5.0, -5.0, -5.0, -5.0, -5.0, -5.0]])

    move = plan_fading(worth, Layout.all_full(BITS, 6), STEPS, unprotected(6, rows=2), 2.0)

    assert move.indices.shape == (2, move.after.num_tokens)
    assert cost_of(move) <= 2.0


def test_padding_goes_first() -> None:
    worth = torch.tensor([[-math.inf, -math.inf, 0.0, 0.0]])

    move = plan_fading(worth, Layout.all_full(BITS, 4), STEPS, unprotected(4), 2.0)

    assert steps_of(move) == {2: 16, 3: 16}


def test_steps_must_be_those_of_the_layout() -> None:
    with pytest.raises(ValueError, match="steps must be those of the layout"):
        plan_fading(torch.zeros(1, 1), Layout.all_full((8, 16), 1), STEPS, unprotected(1), 1.0)


@given(
    worth=st.lists(st.floats(-3, 3), min_size=2, max_size=6),
    blocks=st.lists(st.integers(0, 2), min_size=6, max_size=6),
    share=st.floats(0.2, 0.9),
)
def test_blocks_are_forgotten_whole_and_none_that_costs_no_more_loses_less(
    worth: list[float], blocks: list[int], share: float
) -> None:
    num = len(worth)
    numbers = torch.tensor([blocks[:num]])
    move = plan_fading(
        torch.tensor([worth]),
        Layout.all_full(BITS, num),
        STEPS,
        unprotected(num),
        share * num,
        blocks=numbers,
    )
    options = {0: (0.0, 1.0), **{step.bits: (step.cost, step.noise) for step in STEPS}}
    chosen = tuple(steps_of(move).get(place, 0) for place in range(num))

    def is_whole(bits: tuple[int, ...]) -> bool:
        gone = {number for number, b in zip(blocks, bits, strict=False) if b == 0}
        return not any(b for number, b in zip(blocks, bits, strict=False) if number in gone)

    def loss(bits: tuple[int, ...]) -> float:
        return sum(math.exp(w) * options[b][1] for w, b in zip(worth, bits, strict=True))

    assert is_whole(chosen)
    rivals = filter(is_whole, itertools.product(options, repeat=num))
    cheap = [bits for bits in rivals if sum(options[b][0] for b in bits) <= cost_of(move) + 1e-6]
    assert loss(chosen) <= min(map(loss, cheap)) * (1 + 1e-3) + 1e-6


def test_a_block_stays_for_the_token_that_may_not_go_but_those_beside_it_do() -> None:
    protected = torch.tensor([[True, False, False, False]])
    worth = torch.tensor([[0.0, -9.0, -9.0, 2.0]])

    move = plan_fading(
        worth,
        Layout.all_full(BITS, 4),
        STEPS,
        protected,
        2.0,
        blocks=torch.tensor([[0, 0, 0, 1]]),
    )

    assert steps_of(move) == {0: 16, 3: 16}
