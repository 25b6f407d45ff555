"""The engine-neutral core: spans, scores, blocks and plans, on numpy alone."""

from __future__ import annotations

import itertools
import json
import math
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from memdecay.classifier.region_settings import RegionSettings
from memdecay.classifier.regions import NUM_REGIONS, Region
from memdecay.retention import (
    PlanConfig,
    RegionSpan,
    ScoreConfig,
    block_scores,
    plan_retention,
    region_spans,
    select_blocks,
    token_regions,
    token_scores,
    tokens_to_live,
)

SCORE = ScoreConfig(RegionSettings())
region_arrays = st.lists(st.integers(0, NUM_REGIONS - 1), max_size=200).map(
    lambda values: np.array(values, np.int64)
)
score_arrays = st.lists(st.floats(-700, 700), max_size=100).map(
    lambda values: np.array(values, np.float64)
)
block_sizes = st.integers(1, 40)


def scores_of(regions: NDArray[np.int64]) -> NDArray[np.float64]:
    return token_scores(region_spans(regions), regions.size, SCORE)


def test_importing_it_imports_no_engine_and_no_torch() -> None:
    code = (
        "import sys, memdecay.retention;"
        "print([n for n in ('torch', 'transformers', 'vllm', 'onnxruntime') if n in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@given(region_arrays)
def test_spans_bring_back_the_regions(regions: NDArray[np.int64]) -> None:
    spans = region_spans(regions)
    assert token_regions(spans, regions.size).tolist() == regions.tolist()
    assert all(first.region != second.region for first, second in itertools.pairwise(spans))


def test_tokens_outside_of_all_spans_are_ordinary() -> None:
    regions = token_regions([RegionSpan(1, 2, Region.KEY_DECISION)], 3)
    assert regions.tolist() == [4, 1, 4]


@pytest.mark.parametrize(
    ("spans", "message"),
    [
        ([RegionSpan(0, 3, Region(0)), RegionSpan(2, 4, Region(1))], "must not overlap"),
        ([RegionSpan(0, 9, Region(0))], "behind the last of 5 tokens"),
    ],
)
def test_spans_that_do_not_fit_are_refused(spans: list[RegionSpan], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        token_regions(spans, 5)


def test_a_span_without_tokens_is_refused() -> None:
    with pytest.raises(ValueError, match="0 <= start < stop"):
        RegionSpan(3, 3, Region(0))


@pytest.mark.parametrize("regions", [np.array([5]), np.array([-1])])
def test_a_number_that_is_no_region_is_refused(regions: NDArray[np.int64]) -> None:
    with pytest.raises(ValueError, match="from 0 to 4"):
        region_spans(regions)


def test_regions_must_be_integers_in_a_row() -> None:
    with pytest.raises(ValueError, match=r"shape \(n,\)"):
        region_spans(np.zeros((2, 2), np.int64))


@given(region_arrays)
def test_scores_are_the_formula_token_by_token(regions: NDArray[np.int64]) -> None:
    expected = []
    for position, region in enumerate(regions.tolist()):
        row = SCORE.settings.table[Region(region)]
        age = regions.size - 1 - position
        expected.append(math.log(row.initial_score) - row.decay * age)
    np.testing.assert_allclose(scores_of(regions), expected)


def test_attention_raises_what_is_read_and_lowers_the_rest() -> None:
    spans = region_spans(np.full(4, Region.ORDINARY_CONTEXT, np.int64))
    plain = token_scores(spans, 4, SCORE)
    watched = token_scores(spans, 4, SCORE, np.array([4.0, 0.0, 0.0, 0.0]))
    assert watched[0] > plain[0]
    assert (watched[1:] < plain[1:]).all()


def test_attention_for_other_tokens_is_refused() -> None:
    with pytest.raises(ValueError, match="each of 4 tokens"):
        token_scores((), 4, SCORE, np.ones(3))


@given(region_arrays)
def test_a_token_lives_until_its_score_reaches_the_threshold(
    regions: NDArray[np.int64],
) -> None:
    spans, scores = region_spans(regions), scores_of(regions)
    lives = tokens_to_live(scores, spans, SCORE, math.log(0.1))
    decays = np.array(SCORE.settings.table.decays)[regions]
    ends = np.isfinite(lives) & (lives > 0)
    np.testing.assert_allclose((scores[ends] - decays[ends] * lives[ends]), math.log(0.1))
    assert (np.isinf(lives) <= (decays == 0)).all()


@given(score_arrays, block_sizes)
def test_a_block_scores_between_its_worst_and_its_best(
    scores: NDArray[np.float64], block_size: int
) -> None:
    means, best = block_scores(scores, block_size), block_scores(scores, block_size, "max")
    blocks = [scores[at : at + block_size] for at in range(0, scores.size, block_size)]
    assert best.tolist() == [block.max() for block in blocks]
    for mean, block in zip(means, blocks, strict=True):
        assert block.min() - 1e-9 <= mean <= block.max() + 1e-9


@given(score_arrays, block_sizes, st.integers(0, 120), st.data())
def test_the_blocks_that_stay_fit_and_are_the_best(
    scores: NDArray[np.float64], block_size: int, budget: int, data: st.DataObject
) -> None:
    flags = data.draw(st.lists(st.booleans(), min_size=scores.size, max_size=scores.size))
    is_protected = np.array(flags, np.bool_) & (np.arange(scores.size) % 7 == 0)
    must = {int(at) // block_size for at in np.flatnonzero(is_protected)}
    if len(must) > budget // block_size:
        with pytest.raises(ValueError, match="protected"):
            select_blocks(scores, block_size, budget, is_protected)
        return
    kept = select_blocks(scores, block_size, budget, is_protected).tolist()
    by_block = block_scores(scores, block_size)
    assert kept == sorted(set(kept))
    assert must <= set(kept)
    assert len(kept) == min(budget // block_size, by_block.size)
    lost = set(range(by_block.size)) - set(kept)
    chosen = set(kept) - must
    assert not (chosen and lost) or min(by_block[[*chosen]]) >= max(by_block[[*lost]])


@given(score_arrays, st.integers(0, 120))
def test_blocks_of_one_token_are_tokens(scores: NDArray[np.float64], budget: int) -> None:
    kept = select_blocks(scores, 1, budget)
    assert sorted(scores[kept]) == sorted(scores)[max(0, scores.size - budget) :]


@pytest.mark.parametrize("size", [0, -1])
def test_a_block_has_tokens(size: int) -> None:
    with pytest.raises(ValueError, match="block_size must be 1 or more"):
        block_scores(np.zeros(3), size)


def test_protection_of_other_tokens_is_refused() -> None:
    with pytest.raises(ValueError, match="shape of the scores"):
        select_blocks(np.zeros(3), 1, 3, np.zeros(2, np.bool_))


@given(region_arrays, block_sizes)
def test_a_plan_covers_all_tokens_at_the_blocks_edges(
    regions: NDArray[np.int64], block_size: int
) -> None:
    config = PlanConfig(block_size=block_size, tokens_per_second=20.0)
    plan = plan_retention(region_spans(regions), regions.size, config)
    edges = [part.token_start for part in plan.ranges] + [regions.size]
    assert edges[0] == 0
    assert [part.token_end for part in plan.ranges] == edges[1:]
    assert all(edge % block_size == 0 for edge in edges[:-1])
    assert all(0 <= part.priority <= 100 for part in plan.ranges)
    json.dumps(plan.to_dict())


@given(region_arrays, st.integers(1, 20))
def test_a_better_block_never_has_a_lower_priority(
    regions: NDArray[np.int64], block_size: int
) -> None:
    config = PlanConfig(block_size=block_size, num_sinks=0)
    plan = plan_retention(region_spans(regions), regions.size, config)
    by_block = block_scores(scores_of(regions), block_size)
    priorities = np.zeros(by_block.size)
    for part in plan.ranges:
        priorities[part.token_start // block_size :] = part.priority
    assert (np.diff(priorities[by_block.argsort()]) >= 0).all()


def test_sinks_and_pins_stay_for_good() -> None:
    spans = region_spans(np.full(64, Region.ORDINARY_CONTEXT, np.int64))
    config = PlanConfig(tokens_per_second=10.0)
    first, middle, pinned, last = plan_retention(spans, 64, config, pins=[(40, 41)]).ranges
    assert (first.token_end, first.priority, first.duration_ms) == (16, 100, None)
    assert (pinned.token_start, pinned.token_end, pinned.priority) == (32, 48, 100)
    assert pinned.duration_ms is None
    assert middle.priority < 100
    assert last.priority < 100


def test_an_instruction_outlives_a_decision_and_that_an_ordinary_token() -> None:
    def duration(region: Region) -> float:
        config = PlanConfig(num_sinks=0, tokens_per_second=10.0)
        plan = plan_retention([RegionSpan(0, 16, region)], 16, config)
        return math.inf if plan.ranges[0].duration_ms is None else plan.ranges[0].duration_ms

    instruction, decision, ordinary = map(duration, (Region(0), Region(1), Region(4)))
    assert instruction == math.inf
    assert decision > ordinary > 0


def test_what_a_budget_has_no_room_for_goes_first() -> None:
    regions = np.full(256, Region.ORDINARY_CONTEXT, np.int64)
    regions[64:80] = Region.KEY_DECISION
    config = PlanConfig(num_recent=64, budget_tokens=112, tokens_per_second=10.0)
    plan = plan_retention(region_spans(regions), 256, config)
    kept = sum(part.token_end - part.token_start for part in plan.ranges if part.priority)
    assert kept == 112
    lost = [part for part in plan.ranges if part.priority == 0]
    assert all(part.duration_ms == 0 for part in lost)
    assert not any(part.token_start <= 64 < part.token_end for part in lost)


@pytest.mark.parametrize("pin", [(-1, 3), (3, 3), (3, 20)])
def test_a_pin_outside_of_the_tokens_is_refused(pin: tuple[int, int]) -> None:
    with pytest.raises(ValueError, match="within the 16 tokens"):
        plan_retention((), 16, pins=[pin])


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("block_size", 0),
        ("num_sinks", -1),
        ("num_recent", -1),
        ("budget_tokens", 0),
        ("min_score", 0.0),
        ("tokens_per_second", 0.0),
    ],
)
def test_a_plans_settings_have_ranges(field: str, value: float) -> None:
    with pytest.raises(ValueError, match=f"{field} must be"):
        PlanConfig(**{field: value})


@pytest.mark.parametrize(("field", "value"), [("prior_weight", -1.0), ("attention_floor", 0.0)])
def test_a_scores_settings_have_ranges(field: str, value: float) -> None:
    with pytest.raises(ValueError, match=f"{field} must be"):
        ScoreConfig(RegionSettings(), **{field: value})
