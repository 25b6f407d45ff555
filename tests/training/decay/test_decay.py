"""Fits against curves that are known, scipy's own fit, and files that come back as they were."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import curve_fit

from memdecay.classifier.errors import ConfigError, TraceError
from memdecay.classifier.hindsight import AgeBuckets
from memdecay.classifier.llm import LanguageModel
from memdecay.classifier.region_file import read_region_settings, write_region_settings
from memdecay.classifier.regions import NUM_REGIONS, Region
from memdecay.data.hindsight.measured import align_trace
from memdecay.data.trace import Trace
from memdecay.training.calibration.section import Section, Table
from memdecay.training.decay import DecayConfig, DecayReport, measure_decay
from memdecay.training.decay.files import read_section, section_html, write_section
from memdecay.training.decay.fit import fit_region
from memdecay.training.decay.section import decay_section
from memdecay.training.decay.survival import SurvivalCurves, TraceSums, survival_curves
from tests.data.hindsight.measured import lines_trace, measure_with
from tests.tiny import tiny_language_model

BUCKETS = AgeBuckets.log_spaced(1000)
DECISION, ORDINARY = Region.KEY_DECISION, Region.ORDINARY_CONTEXT


def curves(lifts: Any, replicates: Any = None, num_traces: int = 9) -> SurvivalCurves:
    """Return curves in which every region has the same one, ``(buckets,)``."""
    rows = np.tile(np.asarray(lifts, np.float64), (NUM_REGIONS, 1))
    copies = np.empty((0, *rows.shape))
    if replicates is not None:
        copies = np.repeat(np.asarray(replicates)[:, None], NUM_REGIONS, axis=1)
    return SurvivalCurves(
        BUCKETS, rows, copies, np.full(NUM_REGIONS, 500), np.full(NUM_REGIONS, num_traces)
    )


@given(score=st.floats(0.01, 100), decay=st.floats(0.0, 0.01))
def test_an_exact_curve_gives_back_its_numbers(score: float, decay: float) -> None:
    fit = fit_region(curves(score * np.exp(-decay * BUCKETS.centres)), DECISION, 16, 0.001)
    assert fit is not None
    assert fit.score.value == pytest.approx(score, rel=1e-6)
    assert fit.decay.value == pytest.approx(decay, rel=1e-6, abs=1e-12)
    assert fit.num_points == len(BUCKETS) - BUCKETS.first_from(16)


def test_a_noisy_curve_is_fitted_as_scipy_does() -> None:
    generator = np.random.default_rng(1)
    ages = BUCKETS.centres
    noise = generator.normal(0, 0.3, (40, len(ages))) * np.linspace(0.3, 1, len(ages))
    replicates = 2.0 * np.exp(-0.003 * ages + noise)
    fit = fit_region(curves(replicates[0], replicates), DECISION, 1, 0.1)
    assert fit is not None
    deviation = np.maximum(np.log(replicates).std(axis=0), 0.05)
    (log_score, decay), _ = curve_fit(
        lambda age, log_score, decay: log_score - decay * age,
        ages,
        np.log(replicates[0]),
        sigma=deviation,
        p0=(0.0, 0.001),
    )
    assert fit.score.value == pytest.approx(math.exp(log_score), rel=1e-4)
    assert fit.decay.value == pytest.approx(decay, rel=1e-3)
    assert fit.decay.low is not None
    assert fit.decay.high is not None
    assert fit.decay.low <= 0.003 <= fit.decay.high


def test_a_region_of_one_trace_has_no_intervals() -> None:
    falling = 2.0 * np.exp(-0.003 * BUCKETS.centres)
    fit = fit_region(curves(falling, np.tile(falling, (9, 1)), num_traces=1), DECISION, 1, 0.1)
    assert fit is not None
    assert fit.decay.value == pytest.approx(0.003)
    assert fit.decay.low is fit.decay.high is fit.score.low is fit.survival_tokens.low is None


def test_survival_is_where_the_score_crosses_the_threshold() -> None:
    fit = fit_region(curves(4.0 * np.exp(-0.01 * BUCKETS.centres)), DECISION, 1, 0.5)
    assert fit is not None
    assert fit.survival_tokens.value == pytest.approx(math.log(4.0 / 0.5) / 0.01)
    assert 4.0 * math.exp(-0.01 * fit.survival_tokens.value) == pytest.approx(0.5)


@pytest.mark.parametrize(("lift", "survives"), [(2.0, math.inf), (0.2, 0.0)])
def test_a_curve_that_rises_never_fades(lift: float, survives: float) -> None:
    rising = lift * np.linspace(1.0, 1.1, len(BUCKETS))
    fit = fit_region(curves(rising, np.tile(rising, (9, 1))), DECISION, 1, 0.5)
    assert fit is not None
    assert fit.decay.value == 0.0
    assert fit.score.value == pytest.approx(1.05 * lift, rel=0.02)
    assert fit.survival_tokens.value == survives
    assert fit.survival_tokens.high == survives


def test_too_few_points_are_not_fitted() -> None:
    lifts = np.full(len(BUCKETS), np.nan)
    lifts[-2:] = 1.0
    assert fit_region(curves(lifts), DECISION, 1, 0.1) is None


@pytest.mark.parametrize("threshold", [0.0, -1.0, math.nan])
def test_a_threshold_that_is_none_is_refused(threshold: float) -> None:
    with pytest.raises(ValueError, match="threshold must be above 0"):
        fit_region(curves(np.ones(len(BUCKETS))), DECISION, 1, threshold)


def test_curves_average_over_queries_and_resample_traces() -> None:
    generator = np.random.default_rng(0)
    shape = (NUM_REGIONS, len(BUCKETS))
    sums = [
        TraceSums(
            generator.random(shape) * 100,
            generator.integers(1, 50, shape),
            np.arange(NUM_REGIONS) * index,
        )
        for index in range(3)
    ]
    found = survival_curves(sums, BUCKETS, np.array([[3.0, 0, 0], [0, 1, 2]]), 1)
    total = sum(trace.lifts for trace in sums) / sum(trace.num_queries for trace in sums)
    np.testing.assert_allclose(found.lifts, total)
    np.testing.assert_allclose(found.replicates[0], sums[0].lifts / sums[0].num_queries)
    doubled = sums[1].lifts + 2 * sums[2].lifts
    queries = sums[1].num_queries + 2 * sums[2].num_queries
    np.testing.assert_allclose(found.replicates[1], doubled / queries)
    assert found.num_traces.tolist() == [0, 2, 2, 2, 2]
    assert np.isnan(survival_curves(sums, BUCKETS, np.ones((2, 3)), 10**6).lifts).all()
    with pytest.raises(ValueError, match="at least one trace"):
        survival_curves([], BUCKETS, np.ones((2, 0)), 1)


@pytest.fixture(scope="module")
def llm() -> LanguageModel:
    return tiny_language_model(max_position_embeddings=4096)


def traces() -> list[Trace]:
    regions = [DECISION, ORDINARY, ORDINARY] * 20
    return [lines_trace(f"run-{index}", regions[index:]) for index in range(3)]


@pytest.fixture(scope="module")
def report(llm: LanguageModel) -> DecayReport:
    """Measure decisions that fade from 6 by 0.001 a token, all else from 1.5 by 0.004."""
    labels = align_trace(traces()[0], llm, 4096).labels

    def lift_of(token: int, ages: Any) -> Any:
        if labels[token] == DECISION:
            return 6 * np.exp(-0.001 * ages)
        return 1.5 * np.exp(-0.004 * ages)

    config = DecayConfig(min_age=16, min_queries=10, num_resamples=50)
    same = [replace(traces()[0], id=str(index)) for index in range(3)]
    return measure_decay(same, llm, measure_with(lift_of), config)


def test_what_fades_as_planned_is_measured_so(report: DecayReport) -> None:
    decision, ordinary = report.fits[DECISION], report.fits[ORDINARY]
    assert decision is not None
    assert ordinary is not None
    assert decision.decay.value == pytest.approx(0.001, rel=1e-3)
    assert ordinary.decay.value == pytest.approx(0.004, rel=1e-3)
    assert decision.r_squared == pytest.approx(1.0, abs=1e-6)
    assert report.fits[Region.TOOL_SUMMARY] is None


def test_the_settings_are_in_one_unit_where_a_region_was_not_seen(
    report: DecayReport, tmp_path: Path
) -> None:
    settings = report.settings()
    assert report.pooled is not None
    scores = {region: settings.table[region].initial_score for region in Region}
    assert scores[DECISION] == pytest.approx(4.0, rel=1e-3)
    assert scores[ORDINARY] == 1.0
    # As all tokens together: between the two regions that they belong to, and in their unit.
    unseen = settings.table.tool_summary
    assert unseen.initial_score == pytest.approx(report.pooled.score.value / 1.5, rel=1e-3)
    assert 1.0 < unseen.initial_score < 4.0
    assert 0.001 < unseen.decay < 0.004
    assert settings.table.system_instruction == settings.table.recent_dialogue == unseen
    write_region_settings(tmp_path / "regions.toml", settings)
    assert read_region_settings(tmp_path / "regions.toml") == settings
    assert settings.model == "tiny"


def test_a_region_of_few_tokens_gets_no_fit_of_its_own(llm: LanguageModel) -> None:
    config = DecayConfig(min_age=1, min_queries=1, num_resamples=5, min_tokens=10**6)
    few = measure_decay(traces(), llm, measure_with(lambda _, ages: np.ones_like(ages)), config)
    assert few.fits == (None,) * NUM_REGIONS
    assert few.pooled is not None
    assert len(set(few.settings().table)) == 1


def test_nothing_is_written_where_nothing_was_seen_long_enough(llm: LanguageModel) -> None:
    config = DecayConfig(max_tokens=60, min_age=50, num_resamples=5)
    short = measure_decay(traces(), llm, measure_with(lambda _, ages: np.ones_like(ages)), config)
    assert short.pooled is None
    for use in (short.settings, short.to_dict, lambda: decay_section(short, with_chart=False)):
        with pytest.raises(TraceError, match=r"the 3 traces are too short .* lower --min-age"):
            use()


def test_figures_are_plain_json(report: DecayReport) -> None:
    data = report.to_dict()
    assert json.loads(json.dumps(data, allow_nan=False)) == data
    assert data["regions"]["tool_summary"]["fit"] is None
    assert len(data["ages"]) == len(data["regions"]["key_decision"]["lift"])


def test_progress_is_told_and_long_traces_are_cut(llm: LanguageModel) -> None:
    told: list[tuple[int, int]] = []
    report = measure_decay(
        traces(),
        llm,
        measure_with(lambda _, ages: np.ones_like(ages)),
        DecayConfig(max_tokens=100, min_age=1, num_resamples=5),
        lambda done, total: told.append((done, total)),
    )
    assert told == [(100, 300), (200, 300), (300, 300)]
    assert report.num_cut == 3


def test_no_traces_are_refused(llm: LanguageModel) -> None:
    with pytest.raises(ValueError, match="at least one trace"):
        measure_decay([], llm, measure_with(lambda _, ages: ages))


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"max_tokens": 0}, "max_tokens must be 1 or more"),
        ({"min_tokens": 0}, "min_tokens must be 1 or more"),
        ({"num_resamples": 0}, "num_resamples must be 1 or more"),
        ({"threshold": 0.0}, "threshold must be above 0"),
        ({"threshold": math.inf}, "threshold must be above 0"),
    ],
)
def test_senseless_settings_are_refused(options: dict[str, Any], match: str) -> None:
    with pytest.raises(ValueError, match=match):
        DecayConfig(**options)


def test_the_section_shows_every_region_and_its_curve(report: DecayReport) -> None:
    section = decay_section(report)
    assert section.table is not None
    names = [row[0] for row in section.table.rows]
    assert names == [*(region.label for region in Region), "all regions"]
    assert section.table.rows[Region.TOOL_SUMMARY][3] == "too little: as all regions"
    (chart,) = section.charts
    assert "var(--key_decision)" in chart
    assert "#0a0a" not in chart


def test_a_section_comes_back_from_its_files(report: DecayReport, tmp_path: Path) -> None:
    section = decay_section(report)
    files = write_section(section, tmp_path)
    assert {file.name for file in files} == {
        "report.json",
        "report.md",
        "section.html",
        "section.json",
    }
    assert read_section(tmp_path) == section
    assert json.loads((tmp_path / "report.json").read_text()) == section.data
    assert "| key_decision |" in (tmp_path / "report.md").read_text().replace("\\", "")


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"format": "other"}'])
def test_other_files_are_no_sections(tmp_path: Path, text: str) -> None:
    (tmp_path / "section.json").write_text(text)
    with pytest.raises(ConfigError, match="can't be read as a section"):
        read_section(tmp_path)


def test_text_in_a_section_is_escaped() -> None:
    table = Table(("<i>",), (("\x1b&",),))
    html = section_html(Section("word", "<b>", ("<script>",), ("<svg></svg>",), table))
    assert "<svg></svg>" in html
    for raw in ("<b>", "<script>", "<i>", "\x1b"):
        assert raw not in html
