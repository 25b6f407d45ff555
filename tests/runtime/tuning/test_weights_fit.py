"""Weights are those that lower the divergence, and other traces have the last word on them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from memdecay.classifier.region_settings import RegionSettings
from memdecay.classifier.regions import Region
from memdecay.runtime.config import CacheConfig
from memdecay.runtime.tuning.parameters import NUM_PARAMETERS, bounds, start, to_settings
from memdecay.runtime.tuning.stage import Judge, StageFit
from memdecay.runtime.tuning.weights_fit import WeightsConfig, fit_weights
from tests.runtime.tuning.made_up import MOMENTS

DECISION = Region.KEY_DECISION


def bowl(bottom: float, *, test_sign: float = 1.0) -> Judge:
    """Return a judge to whom a weight of key decisions is worth most at some place."""

    def judge(key: str, settings: RegionSettings | None) -> float:
        if settings is None:
            return 0.1
        gain = 0.5 - 0.1 * (settings.weights[DECISION] - bottom) ** 2
        sign = test_sign if key in ("c1", "d1") else 1.0
        return 0.1 * math.exp(-sign * gain)

    return judge


def fitted(judge: Judge, base: RegionSettings | None = None, **options: Any) -> StageFit:
    return fit_weights(judge, MOMENTS, base or RegionSettings(), WeightsConfig(**options))


def test_a_planted_optimum_is_found() -> None:
    stage = fitted(bowl(1.5), shrinkage=0.0)

    assert stage.is_kept
    assert stage.fitted.weights[DECISION] == pytest.approx(1.5, abs=0.15)
    assert stage.fitted.weights[Region.TOOL_SUMMARY] == 0.0
    assert stage.ratio().value == pytest.approx(math.exp(-0.5), abs=0.02)
    assert stage.ratio("kl_before").value == pytest.approx(math.exp(0.1 * 1.5**2 - 0.5), abs=1e-6)


def test_the_search_begins_with_the_weights_that_are_given() -> None:
    base = RegionSettings(weights=(0.0, 1.5, 0.0, 0.0, 0.0), template_weight=0.5)
    stage = fitted(bowl(1.5), base, max_evaluations=1, shrinkage=0.0)
    assert stage.num_evaluations == 1
    assert not stage.is_finished
    assert stage.fitted.weights == base.weights
    assert stage.fitted.template_weight == 0.5


def test_shrinkage_pulls_towards_nothing() -> None:
    shy = fitted(bowl(1.5), shrinkage=0.1).fitted.weights[DECISION]
    assert 0 < shy < fitted(bowl(1.5), shrinkage=0.0).fitted.weights[DECISION]


def test_weights_that_do_not_help_other_traces_are_not_kept() -> None:
    stage = fitted(bowl(1.5, test_sign=-1.0))
    assert not stage.is_kept
    assert stage.fitted.weights[DECISION] > 1


def test_weights_that_beat_no_weights_but_not_no_regions_are_not_kept() -> None:
    def judge(key: str, settings: RegionSettings | None) -> float:
        return 0.02 if settings is None and key in ("c1", "d1") else bowl(1.5)(key, settings)

    stage = fitted(judge)
    assert stage.ratio().value < stage.ratio("kl_before").value
    assert stage.ratio().value > 1
    assert not stage.is_kept


def test_a_divergence_that_is_no_number_counts_as_no_gain() -> None:
    def judge(key: str, settings: RegionSettings | None) -> float:
        return math.nan if key == "c1" else 0.1 - (0.01 if settings else 0)

    assert not fitted(judge).is_kept


def test_traces_weigh_alike_whatever_their_snapshots() -> None:
    def judge(key: str, settings: RegionSettings | None) -> float:
        return 0.1 if settings is None else {"a1": 0.4, "a2": 0.1}.get(key, 0.1)

    ratio = fitted(judge).ratio(is_test=False)
    assert ratio.value == pytest.approx(math.exp((math.log(4) / 2 + 0) / 2))


def test_nothing_to_fit_or_to_test_is_refused() -> None:
    for moments in (MOMENTS[:3], MOMENTS[3:]):
        with pytest.raises(ValueError, match="expected snapshots to fit and to test"):
            fit_weights(bowl(1.0), moments, RegionSettings(), WeightsConfig())


@pytest.mark.parametrize(
    "options", [{"max_evaluations": 0}, {"shrinkage": -1.0}, {"shrinkage": math.nan}]
)
def test_config_out_of_range_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(options))):
        WeightsConfig(**options)


def test_the_start_changes_no_weight_and_bounds_hold_the_prior() -> None:
    plain = CacheConfig(1024)
    at_start = plain.with_regions(to_settings(start(RegionSettings()), RegionSettings()))
    low, high = bounds()

    assert at_start.feedback == plain.feedback
    assert at_start.regions.weights == plain.regions.weights
    assert to_settings(low, RegionSettings()).prior_weight == 0.0
    assert to_settings(high, RegionSettings()).prior_weight == 0.5
    assert len(low) == len(high) == NUM_PARAMETERS
    assert np.all(low < 0) and np.all(high > 0)  # noqa: PT018


def test_only_differences_from_ordinary_context_count() -> None:
    base = RegionSettings(weights=(1.0, 2.0, 1.0, 1.0, 1.0), template_weight=3.0, prior_weight=0.5)
    same = to_settings(start(base), base)
    assert same.weights == (0.0, 1.0, 0.0, 0.0, 0.0)
    assert (same.template_weight, same.prior_weight) == (2.0, 0.5)
