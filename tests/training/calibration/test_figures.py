"""Intervals, whole spans, abstaining and slices."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memdecay.classifier.regions import NUM_REGIONS, REGION_LABELS
from memdecay.training.calibration import scores
from memdecay.training.calibration.coverage import coverage
from memdecay.training.calibration.figures import Figures, figures
from memdecay.training.calibration.resampling import (
    bootstrap_weights,
    interval,
    subset_weights,
)
from memdecay.training.calibration.slices import NUM_POSITION_BINS, by_position, by_source
from memdecay.training.calibration.spans import span_scores
from memdecay.training.calibration.sums import trace_sums
from memdecay.training.calibration.tokens import TaggedTokens
from tests.training.calibration.samples import calibrated_tokens


def rng() -> np.random.Generator:
    return np.random.default_rng(0)


def one_hot_tokens(labels: list[int], tags: list[int], messages: list[int]) -> TaggedTokens:
    count = len(labels)
    return TaggedTokens(
        region_probs=np.eye(NUM_REGIONS, dtype=np.float32)[tags],
        labels=np.array(labels),
        trace=np.zeros(count, np.int64),
        message=np.array(messages),
        position=np.arange(count),
    )


def test_resamples_draw_whole_traces() -> None:
    weights = bootstrap_weights(7, 50, rng())
    assert weights.shape == (50, 7)
    assert (weights.sum(axis=1) == 7).all()
    subsets = subset_weights(7, 3, 50, rng())
    assert set(np.unique(subsets)) == {0.0, 1.0}
    assert (subsets.sum(axis=1) == 3).all()
    assert len(np.unique(subsets, axis=0)) > 10


@given(st.floats(0, 1), st.lists(st.floats(0, 1), min_size=1, max_size=40), st.booleans())
def test_intervals_hold_their_figure(value: float, replicates: list[float], flag: bool) -> None:
    found = interval(value, np.array(replicates), is_inflated=flag)
    assert found.low is not None
    assert found.high is not None
    assert found.low <= value <= found.high


def test_intervals_need_defined_replicates() -> None:
    assert interval(0.5, np.full(10, np.nan)).low is None
    assert interval(float("nan"), np.ones(10)).low is None
    assert interval(0.5, np.array([])).high is None


def test_interval_of_an_inflated_figure_lies_lower() -> None:
    replicates = 0.2 + 0.1 * np.random.default_rng(1).random(500)
    found = interval(0.2, replicates, is_inflated=True)
    assert found.low is not None
    assert found.low < 0.12


def test_intervals_cover_the_truth_about_as_often_as_they_say() -> None:
    # Over many batches of one population, whose accuracy a huge batch tells.
    truth = scores.accuracy(trace_sums(calibrated_tokens(2000, 20, seed=99)).total().confusion)
    covered = 0
    for seed in range(80):
        confusion = trace_sums(calibrated_tokens(25, 20, seed=seed)).confusion
        resampled = np.tensordot(bootstrap_weights(25, 200, rng()), confusion, axes=(1, 0))
        found = interval(float(scores.accuracy(confusion.sum(axis=0))), scores.accuracy(resampled))
        assert found.low is not None
        assert found.high is not None
        covered += found.low <= truth <= found.high
    assert 68 <= covered <= 79


def figures_of(tokens: TaggedTokens, num_resamples: int) -> Figures:
    return figures(tokens, tokens, num_resamples, rng())


def test_one_trace_has_figures_but_no_intervals() -> None:
    found = figures_of(calibrated_tokens(1), 50)
    assert found.macro_f1.low is None
    assert found.after.ece.low is None
    assert found.macro_f1.value > 0


def test_figures_refuse_no_tokens() -> None:
    tokens = calibrated_tokens(1)
    with pytest.raises(ValueError, match="at least one labelled token"):
        figures_of(tokens.where(np.zeros(len(tokens), np.bool_)), 10)


def spans_of(values: list[int], messages: list[int]) -> set[tuple[int, int, int]]:
    """Return (region, first, end) of each run, by plain counting."""
    spans, first = set(), 0
    for i in range(1, len(values) + 1):
        if i == len(values) or (values[i], messages[i]) != (values[first], messages[first]):
            spans.add((values[first], first, i))
            first = i
    return spans


@given(st.integers(0, 10_000))
def test_strict_span_scores_agree_with_counting(seed: int) -> None:
    generator = np.random.default_rng(seed)
    labels = np.repeat(generator.integers(0, 3, 12), 4).tolist()
    noise = generator.random(48) < 0.15
    tags = np.where(noise, generator.integers(0, 3, 48), labels).tolist()
    messages = (np.arange(48) // 9).tolist()
    found = span_scores(one_hot_tokens(labels, tags, messages))
    for region in range(3):
        truth = {span for span in spans_of(labels, messages) if span[0] == region}
        tagged = {span for span in spans_of(tags, messages) if span[0] == region}
        if not truth | tagged:
            continue
        score = found[REGION_LABELS[region]]
        expected = 2 * len(truth & tagged) / (len(truth) + len(tagged))
        assert score.strict_f1 == pytest.approx(expected)
        assert score.num_spans == len(truth)
        assert score.num_tagged == len(tagged)
        assert score.overlap_f1 >= score.strict_f1 - 1e-9


def test_spans_end_with_their_message() -> None:
    labels = [1] * 6
    score = span_scores(one_hot_tokens(labels, labels, [0, 0, 0, 1, 1, 1]))["all"]
    assert score.num_spans == 2
    assert score.strict_f1 == 1.0


def test_recommended_threshold_is_the_lowest_that_reaches_the_target() -> None:
    tokens = calibrated_tokens(60, seed=2)
    found = coverage(tokens, 0.9, 50, rng())
    assert found.recommended is not None
    threshold = found.recommended.threshold
    hit = tokens.predicted == tokens.labels
    for step in range(100):
        kept = tokens.confidence >= np.float32(step / 100)
        accuracy = hit[kept].mean()
        if step / 100 < threshold:
            assert accuracy < 0.9
        elif step / 100 == threshold:
            assert accuracy == pytest.approx(found.recommended.accuracy.value)
            assert kept.mean() == pytest.approx(found.recommended.coverage.value)
            assert accuracy >= 0.9


def test_coverage_falls_with_the_threshold() -> None:
    shares = [p.coverage.value for p in coverage(calibrated_tokens(), 0.9, 5, rng()).points]
    assert shares[0] == 1.0
    assert all(left >= right for left, right in pairwise(shares))


def test_no_threshold_is_recommended_where_none_helps() -> None:
    wrong = one_hot_tokens([0, 0, 1], [1, 1, 0], [0, 0, 0])
    assert coverage(wrong, 0.9, 5, rng()).recommended is None


@pytest.mark.parametrize("target", [0.0, 1.1, float("nan")])
def test_coverage_refuses_a_senseless_target(target: float) -> None:
    with pytest.raises(ValueError, match="target accuracy"):
        coverage(calibrated_tokens(2), target, 5, rng())


def test_sources_hold_all_tokens_between_them() -> None:
    tokens = calibrated_tokens(9)
    slices = by_source(tokens, ["a", "b", ""] * 3, 20, rng())
    assert {item.name for item in slices} == {"a", "b", "(no source)"}
    assert sum(item.num_tokens for item in slices) == len(tokens)
    assert sum(item.num_traces for item in slices) == 9


def test_positions_hold_all_tokens_between_them() -> None:
    tokens = calibrated_tokens(9)
    slices = by_position(tokens, 20, rng())
    assert len(slices) == NUM_POSITION_BINS
    assert sum(item.num_tokens for item in slices) == len(tokens)
    assert max(i.num_tokens for i in slices) < 2 * min(i.num_tokens for i in slices)


def test_equal_positions_make_one_bin() -> None:
    tokens = calibrated_tokens(5, 1)
    assert [item.name for item in by_position(tokens, 5, rng())] == ["0 to 0"]
