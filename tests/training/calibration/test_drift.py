"""Drift is found where it is, and chance is not taken for it."""

import dataclasses

import numpy as np
import pytest

from memdecay.classifier.regions import REGION_LABELS, Region
from memdecay.training.calibration.sums import trace_sums
from memdecay.training.calibration.tokens import TaggedTokens
from memdecay.training.calibration.verdict.drift import (
    INDEPENDENT,
    PAIRED,
    DriftConfig,
    TraceRows,
    compare,
)
from memdecay.training.calibration.verdict.gaps import OVERALL, GapTest, gap_tests
from memdecay.training.calibration.verdict.multiple import holm
from memdecay.training.calibration.verdict.verdict import Status, judge
from tests.training.calibration.samples import calibrated_tokens, rows_of

CONFIG = DriftConfig(num_resamples=400)
TOOL = int(Region.TOOL_SUMMARY)
ORDINARY = int(Region.ORDINARY_CONTEXT)


def mixing_up(tokens: TaggedTokens, share: float, seed: int = 0) -> TaggedTokens:
    """Swap the probabilities of two regions in a share of the tokens that are tool results."""
    swapped = np.random.default_rng(seed).random(len(tokens)) < share
    swapped &= tokens.labels == TOOL
    probs = tokens.region_probs.copy()
    probs[np.ix_(swapped, [TOOL, ORDINARY])] = probs[np.ix_(swapped, [ORDINARY, TOOL])]
    return dataclasses.replace(tokens, region_probs=probs)


@pytest.mark.parametrize("batch", [1, 2, 5, 12])
def test_small_batches_of_the_same_kind_raise_few_alarms(batch: int) -> None:
    alarms = 0
    for seed in range(40):
        earlier = rows_of(calibrated_tokens(30, 30, seed=2 * seed), "old")
        fresh = rows_of(calibrated_tokens(batch, 30, seed=2 * seed + 1), "new")
        alarms += bool(compare(fresh, earlier, CONFIG).drifted)
    assert alarms <= 5  # Two are expected at most; six come up by chance once in a hundred times.


def test_region_that_got_worse_is_named_with_what_it_is_taken_for() -> None:
    earlier = rows_of(calibrated_tokens(60, seed=1), "old")
    fresh = rows_of(mixing_up(calibrated_tokens(20, seed=2), 0.8), "new")
    drift = compare(fresh, earlier, CONFIG)
    assert drift.method == INDEPENDENT
    assert ("f1", "tool_summary") in {(c.quantity, c.region) for c in drift.drifted}
    verdict = judge(gap_tests(fresh.sums, 0.05, 0.05), drift, is_trained_on=False)
    assert verdict.status is Status.DRIFTED
    assert "tool_summary" in verdict.title
    reason = next(text for text in verdict.reasons if text.startswith("tool_summary: F1"))
    assert "taken for ordinary_context" in reason


def test_confidence_that_grew_beyond_accuracy_is_drift() -> None:
    earlier = rows_of(calibrated_tokens(60, seed=1), "old")
    fresh = rows_of(calibrated_tokens(25, seed=2, sharpness=4.0), "new")
    drifted = {change.quantity for change in compare(fresh, earlier, CONFIG).drifted}
    assert {"ece", "confidence_gap"} <= drifted
    assert "f1" not in drifted


def test_improvement_is_no_drift() -> None:
    earlier = rows_of(mixing_up(calibrated_tokens(60, seed=1), 0.8), "old")
    fresh = rows_of(calibrated_tokens(20, seed=2), "new")
    assert compare(fresh, earlier, CONFIG).drifted == ()


def test_same_traces_are_compared_with_themselves() -> None:
    tokens = calibrated_tokens(25, seed=4)
    earlier = rows_of(tokens)
    same = compare(rows_of(tokens), earlier, CONFIG)
    assert same.method == PAIRED
    assert same.drifted == ()
    assert all(change.difference.value == 0 for change in same.changes)
    worse = compare(rows_of(mixing_up(tokens, 0.3)), earlier, CONFIG)
    assert worse.drifted


def test_pairing_follows_digests_not_places() -> None:
    earlier = rows_of(calibrated_tokens(25, seed=4))
    order = np.random.default_rng(0).permutation(25)[:10]
    fresh = TraceRows(tuple(earlier.digests[i] for i in order), earlier.sums.rows(order))
    drift = compare(fresh, earlier, CONFIG)
    assert drift.num_baseline == 10
    assert all(change.difference.value == 0 for change in drift.changes)


def test_traces_that_stand_in_both_are_taken_out_of_the_earlier_report() -> None:
    earlier = rows_of(calibrated_tokens(20, seed=1))
    more = rows_of(calibrated_tokens(10, seed=2), "new")
    fresh = TraceRows(
        (*more.digests, *earlier.digests[:5]), more.sums.joined(earlier.sums.rows(slice(0, 5)))
    )
    drift = compare(fresh, earlier, CONFIG)
    assert (drift.method, drift.num_traces, drift.num_baseline) == (INDEPENDENT, 15, 15)


def test_small_change_does_not_matter_however_sure() -> None:
    tokens = calibrated_tokens(25, seed=4)
    worse = compare(rows_of(mixing_up(tokens, 0.3)), rows_of(tokens), DriftConfig(min_change=0.9))
    assert worse.drifted == ()


def test_larger_batches_can_show_smaller_changes() -> None:
    earlier = rows_of(calibrated_tokens(80, seed=1), "old")
    noticed = [
        compare(rows_of(calibrated_tokens(count, seed=2), "new"), earlier, CONFIG).changes[0]
        for count in (2, 40)
    ]
    assert noticed[0].detectable is not None
    assert noticed[1].detectable is not None
    assert noticed[1].detectable < noticed[0].detectable


def test_region_that_is_missing_is_not_tested() -> None:
    tokens = calibrated_tokens(10, seed=2)
    fresh = tokens.where((tokens.labels != TOOL) & (tokens.predicted != TOOL))
    drift = compare(rows_of(fresh, "new"), rows_of(calibrated_tokens(30), "old"), CONFIG)
    change = next(c for c in drift.changes if (c.quantity, c.region) == ("f1", "tool_summary"))
    assert change.p_value is None
    assert not change.is_drift


def test_comparison_needs_traces_on_both_sides() -> None:
    rows = rows_of(calibrated_tokens(3))
    empty = TraceRows((), rows.sums.rows(slice(0, 0)))
    with pytest.raises(ValueError, match="traces on both sides"):
        compare(empty, rows, CONFIG)


@pytest.mark.parametrize(
    ("settings", "name"),
    [
        ({"alpha": 0.0}, "alpha"),
        ({"min_change": -1.0}, "min_change"),
        ({"num_resamples": 0}, "num"),
    ],
)
def test_settings_out_of_range_are_refused(settings: dict[str, float], name: str) -> None:
    with pytest.raises(ValueError, match=name):
        DriftConfig(**settings)  # type: ignore[arg-type]


def test_holm_adjusts_as_in_the_textbook() -> None:
    # By hand: 4 * 0.01, 3 * 0.02, 2 * 0.03, 0.04, and none below the one before.
    adjusted = holm(np.array([0.03, np.nan, 0.01, 0.04, 0.02]))
    np.testing.assert_allclose(adjusted, [0.06, np.nan, 0.04, 0.06, 0.06])


def test_honest_classifiers_of_few_traces_are_not_called_off() -> None:
    alarms = sum(
        any(gap.is_off for gap in gap_tests(trace_sums(tokens), 0.0, 0.05))
        for tokens in (calibrated_tokens(4, 40, seed=seed) for seed in range(60))
    )
    assert alarms <= 7


def test_boastful_classifier_is_called_off() -> None:
    gaps = gap_tests(trace_sums(calibrated_tokens(30, sharpness=4.0)), 0.05, 0.05)
    assert {gap.name for gap in gaps if gap.is_off} == {*REGION_LABELS, OVERALL}
    verdict = judge(gaps, None, is_trained_on=False)
    assert verdict.status is Status.MISCALIBRATED
    assert "surer than it is right" in verdict.reasons[0]


def test_too_few_traces_give_no_verdict() -> None:
    gaps = gap_tests(trace_sums(calibrated_tokens(2)), 0.05, 0.05)
    assert judge(gaps, None, is_trained_on=False).status is Status.UNPROVEN


def test_wide_gap_that_may_be_chance_is_not_called_calibrated() -> None:
    gaps = tuple(
        GapTest(name, gap, p_value=0.6, is_off=False)
        for name, gap in zip(
            (*REGION_LABELS, OVERALL), (0.0, 0.0, 0.3, 0.0, 0.1, 0.09), strict=True
        )
    )
    verdict = judge(gaps, None, is_trained_on=False)
    assert verdict.status is Status.UNPROVEN
    assert "lie +9 points apart" in verdict.reasons[0]
    narrow = (*gaps[:-1], GapTest(OVERALL, -0.02, p_value=1.0, is_off=False))
    verdict = judge(narrow, None, is_trained_on=False)
    assert verdict.status is Status.CALIBRATED
    assert "tool_summary (+30), ordinary_context (+10)" in verdict.reasons[0]


def test_traces_of_the_training_give_no_verdict() -> None:
    gaps = gap_tests(trace_sums(calibrated_tokens(30)), 0.05, 0.05)
    assert judge(gaps, None, is_trained_on=False).status is Status.CALIBRATED
    verdict = judge(gaps, None, is_trained_on=True)
    assert verdict.status is Status.UNPROVEN
    assert "trained on every one" in verdict.reasons[0]
