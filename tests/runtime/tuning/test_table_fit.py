"""The fitted table is the one that made the data, in the policy's own terms."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memdecay.classifier.errors import TraceError
from memdecay.classifier.regions import Region, RegionDecay, RegionTable
from memdecay.runtime.tuning.evidence import load_evidence, save_evidence
from memdecay.runtime.tuning.table_fit import TableConfig, fit_table, never_fading
from tests.runtime.tuning.made_up import PLANTED, made_up


def test_the_fit_finds_the_table_that_made_the_data() -> None:
    table = fit_table([made_up(seed) for seed in range(3)], TableConfig())
    for region in Region:
        found, planted = table[region], PLANTED[region]
        assert math.log(found.initial_score) == pytest.approx(
            math.log(planted.initial_score), abs=0.15
        )
        assert found.decay == pytest.approx(planted.decay, abs=5e-5)


def test_what_is_written_is_rounded() -> None:
    for row in fit_table([made_up(0)], TableConfig()):
        for value in (row.initial_score, row.decay):
            assert float(f"{value:.3g}") == value


def test_tokens_of_one_region_make_all_alike() -> None:
    one = [made_up(0, regions=(Region.ORDINARY_CONTEXT,), num_template=0)]
    table = fit_table(one, TableConfig())
    assert len(set(table)) == 1
    assert table.ordinary_context.initial_score == 1.0


def test_a_region_with_too_few_tokens_is_scored_as_ordinary_context() -> None:
    common = tuple(each for each in Region if each != Region.KEY_DECISION)
    sequences = [made_up(seed, regions=common) for seed in range(3)]
    rare = made_up(7, regions=(Region.KEY_DECISION,), num_template=0, num_tokens=60)
    table = fit_table([*sequences, rare], TableConfig())
    assert table.key_decision == table.ordinary_context
    table = fit_table([*sequences, rare], TableConfig(min_tokens=50))
    assert table.key_decision.initial_score > 2.0


def test_use_that_grows_with_age_is_no_decay() -> None:
    # The policy knows no growth: what would be one is cut off at no decay at all.
    each = made_up(0)
    growing = replace(each, unexplained=each.unexplained + (0.002 * each.ages).astype(np.float32))
    decays = fit_table([growing], TableConfig()).decays
    assert {repr(decay) for decay in decays} == {"0.0"}  # A file with -0.0 would look odd.


@settings(max_examples=20, deadline=None)
@given(
    offset=st.floats(-3, 3),
    scores=st.lists(st.floats(0.3, 20), min_size=4, max_size=4),
)
def test_levels_are_relative_to_ordinary_context(offset: float, scores: list[float]) -> None:
    planted = RegionTable(*(RegionDecay(each, 0.0) for each in (*scores, 1.0)))
    each = made_up(1, planted, num_tokens=1500)
    shifted = replace(each, unexplained=each.unexplained + np.float32(offset))
    found = fit_table([shifted], TableConfig())
    assert found.ordinary_context.initial_score == 1.0
    same = fit_table([each], TableConfig())
    np.testing.assert_allclose(found.initial_scores, same.initial_scores, rtol=2e-2)


def test_the_prior_weight_only_changes_the_units() -> None:
    sequences = [made_up(seed) for seed in range(3)]
    quarter = fit_table(sequences, TableConfig(0.25))
    half = fit_table(sequences, TableConfig(0.5))
    np.testing.assert_allclose(
        0.25 * np.log(quarter.initial_scores), 0.5 * np.log(half.initial_scores), atol=5e-3
    )
    np.testing.assert_allclose(
        0.25 * np.array(quarter.decays), 0.5 * np.array(half.decays), rtol=2e-2
    )


def test_regions_that_are_kept_never_fade_and_the_others_stay() -> None:
    sequences = [made_up(seed) for seed in range(3)]
    free = fit_table(sequences, TableConfig())
    kept = fit_table(sequences, TableConfig(kept=frozenset({Region.KEY_DECISION})))
    assert free.key_decision.decay > 0
    assert kept == replace(free, key_decision=replace(free.key_decision, decay=0.0))
    assert kept == never_fading(free, [Region.KEY_DECISION])
    assert never_fading(free, ()) == free


def test_too_little_ordinary_context_is_refused() -> None:
    decided = made_up(1, regions=(Region.KEY_DECISION,))
    with pytest.raises(TraceError, match=r"200 tokens of ordinary context or more.*got 0"):
        fit_table([decided], TableConfig())


@pytest.mark.parametrize("prior_weight", [0.0, -1.0, math.inf, math.nan])
def test_a_prior_without_weight_is_refused(prior_weight: float) -> None:
    with pytest.raises(ValueError, match="prior_weight must be above 0"):
        TableConfig(prior_weight)


def test_no_tokens_at_all_are_refused() -> None:
    with pytest.raises(ValueError, match="min_tokens must be 1 or more"):
        TableConfig(min_tokens=0)


def test_evidence_comes_back_from_disk(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "one.safetensors"
    evidence = made_up(0)
    save_evidence(path, evidence)
    found = load_evidence(path)
    assert found is not None
    assert len(found) == len(evidence) == 4000
    assert fit_table([found], TableConfig()) == fit_table([evidence], TableConfig())
    np.testing.assert_array_equal(found.is_template, evidence.is_template)
    assert load_evidence(tmp_path / "none.safetensors") is None
    path.write_bytes(path.read_bytes()[:100])
    assert load_evidence(path) is None
