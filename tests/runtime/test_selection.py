from __future__ import annotations

import math
from collections import Counter

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from memdecay.classifier.regions import NUM_REGIONS
from memdecay.runtime.selection import select_kept

Row = tuple[list[float], list[int], list[bool], int, list[float]]


@st.composite
def rows(draw: st.DrawFn) -> Row:
    """One row of up to 24 slots: few distinct scores, so that ties are common."""
    size = draw(st.integers(0, 24))
    num_pads = draw(st.integers(0, size))
    score = st.sampled_from([-2.0, 0.0, 1.0, 3.5])
    scores = [-math.inf] * num_pads + [draw(score) for _ in range(size - num_pads)]
    regions = draw(st.lists(st.integers(0, NUM_REGIONS - 1), min_size=size, max_size=size))
    is_protected = [i >= num_pads and draw(st.integers(0, 4)) == 0 for i in range(size)]
    num_keep = draw(st.integers(sum(is_protected), size))
    shares = draw(
        st.lists(st.sampled_from([0.0, 0.2, 0.5, 1.0]), min_size=NUM_REGIONS, max_size=NUM_REGIONS)
    )
    return scores, regions, is_protected, num_keep, shares


def select_one_by_one(row: Row) -> list[int]:
    """Decide slot by slot what `select_kept` decides with tensors."""
    scores, regions, is_protected, num_keep, shares = row
    kept = [i for i, protected in enumerate(is_protected) if protected]
    counts = Counter(regions[i] for i in kept)
    best_first = sorted(range(len(scores)), key=lambda i: (scores[i], i), reverse=True)
    real = [i for i in best_first if scores[i] > -math.inf and not is_protected[i]]
    for i in real:
        if len(kept) < num_keep and counts[regions[i]] < math.floor(
            shares[regions[i]] * num_keep + 1e-6
        ):
            kept.append(i)
            counts[regions[i]] += 1
    for i in [*real, *[i for i in best_first if scores[i] == -math.inf]]:
        if len(kept) < num_keep and i not in kept:
            kept.append(i)
    return sorted(kept)


def select(row: Row) -> list[int]:
    scores, regions, is_protected, num_keep, shares = row
    kept = select_kept(
        torch.tensor([scores], dtype=torch.float32),
        torch.tensor([regions], dtype=torch.int64),
        torch.tensor([is_protected], dtype=torch.bool),
        num_keep,
        shares,
    )
    return kept[0].tolist()


@given(rows())
def test_selection_agrees_with_deciding_slot_by_slot(row: Row) -> None:
    assert select(row) == select_one_by_one(row)


@given(rows())
def test_protected_tokens_stay_and_indices_ascend(row: Row) -> None:
    _, _, is_protected, num_keep, _ = row

    kept = select(row)

    assert kept == sorted(set(kept))
    assert len(kept) == num_keep
    assert {i for i, protected in enumerate(is_protected) if protected} <= set(kept)


def test_rows_are_decided_independently() -> None:
    generator = torch.Generator().manual_seed(0)
    scores = torch.randn(3, 20, generator=generator)
    regions = torch.randint(0, NUM_REGIONS, (3, 20), generator=generator)
    is_protected = torch.rand(3, 20, generator=generator) < 0.2

    together = select_kept(scores, regions, is_protected, 12, 0.3)

    for row in range(3):
        one = slice(row, row + 1)
        alone = select_kept(scores[one], regions[one], is_protected[one], 12, 0.3)
        assert torch.equal(together[one], alone)


def test_cap_leaves_room_for_other_regions() -> None:
    scores = torch.tensor([[9.0, 8.0, 7.0, 6.0, 1.0, 1.0]])
    regions = torch.tensor([[0, 0, 0, 0, 1, 1]])

    kept = select_kept(scores, regions, torch.zeros(1, 6, dtype=torch.bool), 4, 0.5)

    assert kept.tolist() == [[0, 1, 4, 5]]


def test_cap_gives_way_when_nobody_else_wants_the_room() -> None:
    scores = torch.tensor([[-math.inf, 8.0, 7.0, 6.0, 1.0]])
    regions = torch.tensor([[1, 0, 0, 0, 1]])

    kept = select_kept(scores, regions, torch.zeros(1, 5, dtype=torch.bool), 4, 0.25)

    assert kept.tolist() == [[1, 2, 3, 4]]


def test_protected_tokens_count_against_their_regions_cap() -> None:
    scores = torch.tensor([[0.0, 0.0, 9.0, 1.0]])
    regions = torch.tensor([[0, 0, 0, 1]])
    is_protected = torch.tensor([[True, True, False, False]])

    kept = select_kept(scores, regions, is_protected, 3, 2 / 3)

    assert kept.tolist() == [[0, 1, 3]]


def test_newer_token_wins_a_tie() -> None:
    kept = select_kept(
        torch.zeros(1, 5), torch.zeros(1, 5, dtype=torch.int64), torch.zeros(1, 5).bool(), 2
    )

    assert kept.tolist() == [[3, 4]]


def test_share_that_binary_fractions_round_down_counts_whole() -> None:
    assert math.floor(0.29 * 100) == 28
    scores = torch.cat([torch.full((1, 40), 9.0), torch.zeros(1, 100)], dim=1)
    regions = (scores == 0).long()

    kept = select_kept(scores, regions, torch.zeros(1, 140).bool(), 100, [0.29, 1, 1, 1, 1])

    assert int((kept < 40).sum()) == 29


@pytest.mark.parametrize("share", [1.5, -0.1, [0.5] * 4, [0.5, 0.5, 0.5, 0.5, 2.0]])
def test_bad_share_is_refused(share: float | list[float]) -> None:
    with pytest.raises(ValueError, match="max_region_share"):
        select_kept(torch.zeros(1, 3), torch.zeros(1, 3).long(), torch.zeros(1, 3).bool(), 2, share)


def test_different_shapes_are_refused() -> None:
    with pytest.raises(ValueError, match="one shape"):
        select_kept(torch.zeros(1, 3), torch.zeros(1, 2).long(), torch.zeros(1, 3).bool(), 2)


@pytest.mark.parametrize("num_keep", [-1, 4])
def test_num_keep_out_of_range_is_refused(num_keep: int) -> None:
    with pytest.raises(ValueError, match="num_keep"):
        select_kept(torch.zeros(1, 3), torch.zeros(1, 3).long(), torch.zeros(1, 3).bool(), num_keep)


def test_more_protected_tokens_than_room_are_refused() -> None:
    with pytest.raises(ValueError, match="protects 3 tokens"):
        select_kept(torch.zeros(1, 3), torch.zeros(1, 3).long(), torch.ones(1, 3).bool(), 2)
