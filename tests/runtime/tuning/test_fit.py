"""A fit finds what lowers the divergence, and yields where it does not on other traces."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from memdecay.classifier.region_settings import RegionSettings
from memdecay.classifier.regions import Region
from memdecay.runtime.config import CacheConfig
from memdecay.runtime.tuning.fit import Fit, FitConfig, Judge, fit_weights
from memdecay.runtime.tuning.parameters import NUM_PARAMETERS, bounds, start, to_settings
from memdecay.runtime.tuning.report import FitContext, fit_markdown, write_fit_report

FIT = [("a1", "a"), ("a2", "a"), ("b1", "b")]
TEST = [("c1", "c"), ("d1", "d")]
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


def fitted(judge: Judge, **options: Any) -> Fit:
    return fit_weights(judge, FIT, TEST, RegionSettings(), FitConfig(**options))


def test_a_planted_optimum_is_found() -> None:
    fit = fitted(bowl(1.5), shrinkage=0.0)

    assert fit.is_chosen
    assert fit.chosen.weights[DECISION] == pytest.approx(1.5, abs=0.15)
    assert fit.chosen.weights[Region.TOOL_SUMMARY] == 0.0
    assert fit.ratio(is_test=True).value == pytest.approx(math.exp(-0.5), abs=0.02)


def test_shrinkage_pulls_towards_nothing() -> None:
    shy = fitted(bowl(1.5), shrinkage=0.1).fitted.weights[DECISION]
    assert 0 < shy < fitted(bowl(1.5), shrinkage=0.0).fitted.weights[DECISION]


def test_weights_that_do_not_help_other_traces_yield() -> None:
    fit = fitted(bowl(1.5, test_sign=-1.0))

    assert not fit.is_chosen
    assert fit.fitted.weights[DECISION] > 1
    assert fit.chosen.weights == (0.0,) * 5
    assert len(set(fit.chosen.table)) == 1
    assert CacheConfig(1024).with_regions(fit.chosen).feedback == CacheConfig(1024).feedback
    assert not fit.has_regions
    assert "no part" in fit_markdown(fit, FitContext("tiny", "rules", 0.125, 64))


def test_regions_without_weights_stay_where_only_the_weights_do_not_help() -> None:
    def judge(key: str, settings: RegionSettings | None) -> float:
        if settings is not None and key in ("c1", "d1"):
            return 0.1 * math.exp(0.2 * settings.weights[DECISION] ** 2 - 0.3)
        return bowl(1.5)(key, settings)

    fit = fitted(judge)

    assert not fit.is_chosen
    assert fit.has_regions
    assert fit.chosen == to_settings(start(), RegionSettings())
    assert "no better than no weights" in fit_markdown(fit, FitContext("tiny", "rules", 0.125, 64))


def test_a_divergence_that_is_no_number_counts_as_no_gain() -> None:
    def judge(key: str, settings: RegionSettings | None) -> float:
        return math.nan if key == "c1" else 0.1 - (0.01 if settings else 0)

    assert not fitted(judge).is_chosen


def test_each_question_is_asked_once_and_counted() -> None:
    asked: list[tuple[str, RegionSettings | None]] = []
    calls: list[tuple[int, int]] = []

    def judge(key: str, settings: RegionSettings | None) -> float:
        asked.append((key, settings))
        return bowl(1.0)(key, settings)

    fit_weights(judge, FIT, TEST, RegionSettings(), FitConfig(20), lambda *call: calls.append(call))

    assert len(asked) == len(set(asked))
    assert calls[0][0] == 1
    assert calls[-1][0] == calls[-1][1]
    assert all(done <= total for done, total in calls)


def test_traces_weigh_alike_whatever_their_snapshots() -> None:
    def judge(key: str, settings: RegionSettings | None) -> float:
        return 0.1 if settings is None else {"a1": 0.4, "a2": 0.1}.get(key, 0.1)

    ratio = fitted(judge).ratio(is_test=False)
    assert ratio.value == pytest.approx(math.exp((math.log(4) / 2 + 0) / 2))


def test_nothing_to_fit_or_to_test_is_refused() -> None:
    for fit, test in (([], TEST), (FIT, [])):
        with pytest.raises(ValueError, match="expected snapshots to fit and to test"):
            fit_weights(bowl(1.0), fit, test, RegionSettings(), FitConfig())


@pytest.mark.parametrize(
    "options", [{"max_evaluations": 0}, {"shrinkage": -1.0}, {"shrinkage": math.nan}]
)
def test_config_out_of_range_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(options))):
        FitConfig(**options)


def test_the_start_changes_no_weight_and_bounds_hold_the_prior() -> None:
    plain = CacheConfig(1024)
    at_start = plain.with_regions(to_settings(start(), RegionSettings()))
    low, high = bounds()

    assert at_start.feedback == plain.feedback
    assert at_start.regions.weights == plain.regions.weights
    assert to_settings(low, RegionSettings()).prior_weight == 0.0
    assert to_settings(high, RegionSettings()).prior_weight == 0.5
    assert len(low) == len(high) == NUM_PARAMETERS
    assert np.all(low < 0) and np.all(high > 0)  # noqa: PT018


def test_the_report_holds_the_figures(tmp_path: Path) -> None:
    fit = fitted(bowl(1.5))
    page = write_fit_report(tmp_path / "regions.toml", fit, FitContext("tiny", "rules", 0.125, 64))

    figures = json.loads((tmp_path / "regions.report.json").read_text())
    assert figures["is_chosen"] is True
    assert figures["ratio"]["test"]["fitted"]["value"] == pytest.approx(
        fit.ratio(is_test=True).value
    )
    assert [moment["key"] for moment in figures["moments"]] == ["a1", "a2", "b1", "c1", "d1"]
    text = page.read_text()
    assert "| key_decision | +1." in text
    assert "12.5% of the full cache's bytes" in text
