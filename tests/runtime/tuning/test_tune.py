"""A fit in stages keeps what helps on traces that it has not seen, and yields otherwise."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from memdecay.classifier.errors import TraceError
from memdecay.classifier.region_file import read_region_settings, write_region_settings
from memdecay.classifier.region_settings import RegionSettings
from memdecay.classifier.regions import Region, RegionTable
from memdecay.runtime.config import CacheConfig
from memdecay.runtime.tuning.evidence import Evidence
from memdecay.runtime.tuning.parameters import without_regions
from memdecay.runtime.tuning.report import FitContext, fit_markdown, write_fit_report
from memdecay.runtime.tuning.stage import Judge
from memdecay.runtime.tuning.table_fit import TableConfig, fit_table
from memdecay.runtime.tuning.tune import Outcome, Stage, TuneConfig, Tuned, tune_regions
from memdecay.runtime.tuning.weights_fit import WeightsConfig
from tests.runtime.tuning.made_up import MOMENTS, PLANTED, made_up

EVIDENCE = {moment.key: made_up(number) for number, moment in enumerate(MOMENTS)}
CONTEXT = FitContext("tiny", "rules", 0.125, 64)
DECISION = Region.KEY_DECISION
OUTSIDE = ("c1", "d1")


def distance(table: RegionTable) -> float:
    """Return how far a table's scores are from the planted ones."""
    pairs = zip(table.initial_scores, PLANTED.initial_scores, strict=True)
    return sum(abs(math.log(score / planted)) for score, planted in pairs)


def judging(table: float = 0.0, weight: float = 0.0, given: float = 0.0) -> Judge:
    """Return a judge of gains: of the planted table, of a weight of 1.5, of regions at all."""

    def judge(_: str, settings: RegionSettings | None) -> float:
        if settings is None:
            return 0.1
        gain = given + (table if distance(settings.table) < 1 else 0.0)
        gain += weight * (1 - min(1.0, abs(settings.weights[DECISION] - 1.5)))
        return 0.1 * math.exp(-gain)

    return judge


def tuned(
    judge: Judge,
    *stages: Stage,
    evidence: Mapping[str, Evidence] = EVIDENCE,
    table: TableConfig | None = None,
    **options: Any,
) -> Tuned:
    config = TuneConfig(
        frozenset(stages or Stage), table or TableConfig(), WeightsConfig(shrinkage=0.0)
    )
    return tune_regions(judge, evidence, MOMENTS, RegionSettings(), config, **options)


def test_both_stages_are_kept_where_both_help() -> None:
    fit = tuned(judging(table=0.3, weight=0.2, given=0.1))
    table, weights = fit.stages

    assert fit.outcome is Outcome.FITTED
    assert table.is_kept and weights.is_kept  # noqa: PT018
    assert fit.chosen.table == fit_table(list(EVIDENCE.values()), TableConfig())
    assert fit.chosen.weights[DECISION] == pytest.approx(1.5, abs=0.2)
    assert table.ratio("kl_before").value == pytest.approx(math.exp(-0.1))
    assert table.ratio().value == pytest.approx(math.exp(-0.4))
    assert weights.ratio("kl_before").value == pytest.approx(math.exp(-0.4))
    assert weights.ratio().value == pytest.approx(math.exp(-0.6), abs=0.03)


def test_no_moment_is_judged_by_a_table_that_was_fitted_to_its_group() -> None:
    asked: dict[str, set[RegionTable]] = {}

    def judge(key: str, settings: RegionSettings | None) -> float:
        if settings is not None:
            asked.setdefault(key, set()).add(settings.table)
        return judging(table=0.3)(key, settings)

    tuned(judge, Stage.TABLE)

    for moment in MOMENTS:
        others = [EVIDENCE[each.key] for each in MOMENTS if each.group != moment.group]
        assert asked[moment.key] == {RegionTable(), fit_table(others, TableConfig())}


def test_weights_are_searched_for_on_a_table_that_has_not_seen_the_test_either() -> None:
    weighted: set[RegionTable] = set()

    def judge(key: str, settings: RegionSettings | None) -> float:
        if settings is not None and settings.weights[DECISION]:
            weighted.add(settings.table)
        return judging(table=0.3, weight=0.2)(key, settings)

    tuned(judge)
    assert weighted == {fit_table([EVIDENCE[key] for key in ("a1", "a2", "b1")], TableConfig())}


def test_a_table_that_does_not_help_others_gives_way_to_the_given_one() -> None:
    fit = tuned(judging(table=-0.3, weight=0.2, given=0.1))
    table, weights = fit.stages

    assert not table.is_kept
    assert weights.is_kept
    assert fit.outcome is Outcome.FITTED
    assert fit.chosen.table == RegionTable()
    assert fit.chosen.weights[DECISION] > 1
    assert "falls with the fitted weights, not with the table" in fit_markdown(fit, CONTEXT)


def test_a_table_that_only_helps_what_it_was_fitted_to_is_not_kept() -> None:
    memorised = fit_table(list(EVIDENCE.values()), TableConfig())

    def judge(_: str, settings: RegionSettings | None) -> float:
        return 0.01 if settings is not None and settings.table == memorised else 0.1

    fit = tuned(judge, Stage.TABLE)
    assert fit.stages[0].fitted.table == memorised
    assert not fit.stages[0].is_kept


def test_the_table_stays_where_only_the_weights_do_not_help() -> None:
    def judge(key: str, settings: RegionSettings | None) -> float:
        if settings is not None and key in OUTSIDE:
            return judging(table=0.3, weight=-0.2)(key, settings)
        return judging(table=0.3, weight=0.2)(key, settings)

    fit = tuned(judge)
    assert [stage.is_kept for stage in fit.stages] == [True, False]
    assert fit.chosen == fit.stages[0].fitted
    assert fit.chosen.weights == (0.0,) * 5
    assert "falls with the fitted table, not with the weights" in fit_markdown(fit, CONTEXT)


def test_the_given_settings_stay_where_no_stage_helps() -> None:
    fit = tuned(judging(table=-0.3, given=0.1))
    assert fit.outcome is Outcome.GIVEN
    assert fit.chosen == RegionSettings()
    assert "those that the fit began with" in fit_markdown(fit, CONTEXT)


@pytest.mark.parametrize("stages", [(), (Stage.TABLE,), (Stage.WEIGHTS,)])
def test_regions_play_no_part_where_nothing_helps(stages: tuple[Stage, ...]) -> None:
    fit = tuned(judging(table=0.1, given=-0.3), *stages)

    assert fit.outcome is Outcome.NONE
    assert fit.chosen == without_regions(RegionSettings())
    assert len(set(fit.chosen.table)) == 1
    assert CacheConfig(1024).with_regions(fit.chosen).feedback == CacheConfig(1024).feedback
    assert "play no part" in fit_markdown(fit, CONTEXT)


def test_a_region_that_is_kept_never_fades_in_any_settings() -> None:
    kept = TableConfig(kept=frozenset({DECISION}))
    fit = tuned(judging(table=0.3, given=0.1), table=kept)
    assert fit.stages[0].fitted.table.key_decision.decay == 0.0
    given = tuned(judging(table=-0.3, given=0.1), table=kept)
    assert given.outcome is Outcome.GIVEN
    assert given.chosen.table.key_decision.decay == 0.0
    assert given.chosen.table.ordinary_context == RegionTable().ordinary_context


def test_each_question_is_asked_once_and_counted() -> None:
    asked: list[tuple[str, RegionSettings | None]] = []
    calls: list[tuple[int, int]] = []

    def judge(key: str, settings: RegionSettings | None) -> float:
        asked.append((key, settings))
        return judging(table=0.3, weight=0.2)(key, settings)

    tuned(judge, on_progress=lambda *call: calls.append(call))

    assert len(asked) == len(set(asked))
    assert calls[0][0] == 1
    assert calls[-1][0] == calls[-1][1]
    assert all(done <= total for done, total in calls)


def test_settings_without_regions_are_not_judged_beside_none() -> None:
    asked: list[RegionSettings | None] = []

    def judge(key: str, settings: RegionSettings | None) -> float:
        asked.append(settings)
        return judging(table=0.3)(key, settings)

    nothing = without_regions(RegionSettings())
    config = TuneConfig(frozenset({Stage.TABLE}), TableConfig(kept=frozenset({DECISION})))
    fit = tune_regions(judge, EVIDENCE, MOMENTS, nothing, config)
    assert nothing not in asked
    assert fit.stages[0].ratio("kl_before").value == 1.0
    assert fit.outcome is Outcome.FITTED


def test_what_can_not_be_fitted_is_refused() -> None:
    with pytest.raises(ValueError, match="a stage or more of table, weights"):
        TuneConfig(frozenset())
    with pytest.raises(ValueError, match="two groups or more, got 1"):
        tune_regions(judging(), EVIDENCE, MOMENTS[:2], RegionSettings(), TuneConfig())
    decided = {key: made_up(0, regions=(DECISION,)) for key in EVIDENCE}
    with pytest.raises(TraceError, match="ordinary context"):
        tuned(judging(), evidence=decided)


def test_the_report_holds_the_figures_of_both_stages(tmp_path: Path) -> None:
    fit = tuned(judging(table=0.3, weight=0.2))
    page = write_fit_report(tmp_path / "regions.toml", fit, CONTEXT)

    figures = json.loads((tmp_path / "regions.report.json").read_text())
    table, weights = figures["stages"]
    assert figures["outcome"] == "fitted"
    assert figures["chosen"]["table"] == fit.chosen.table.to_dict()
    assert (table["name"], weights["name"]) == ("table", "weights")
    assert table["ratio"]["test"]["after"]["value"] == pytest.approx(fit.stages[0].ratio().value)
    assert "fit" not in table["ratio"]  # All its moments are left out of their own table's fit.
    assert weights["ratio"]["test"]["before"]["low"] <= 1
    assert [moment["key"] for moment in weights["moments"]] == ["a1", "a2", "b1", "c1", "d1"]
    text = page.read_text()
    assert text.count("| key_decision |") == 3
    assert "falls with the fitted table and weights." in text
    assert "12.5% of the full cache's bytes" in text
    assert "| c | left out |" in text
    assert "| c | test |" in text


def test_the_chosen_settings_come_back_from_their_file(tmp_path: Path) -> None:
    fit = tuned(judging(table=0.3, weight=0.2))
    write_region_settings(tmp_path / "r.toml", fit.chosen)
    assert read_region_settings(tmp_path / "r.toml") == fit.chosen
