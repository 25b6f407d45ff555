from __future__ import annotations

import dataclasses
import json

import pytest

from memdecay.classifier.regions import Region
from memdecay.classifier.regret import ConfusionCost, EvictionRegret
from memdecay.training.decay.regret import RegretContext, regret_report, regret_section

CONTEXT = RegretContext("tiny", "the rules", "memdecay", 64, 256, num_skipped=1)
TOOL, ORDINARY, DECISION = Region.TOOL_SUMMARY, Region.ORDINARY_CONTEXT, Region.KEY_DECISION
TRACES = [
    EvictionRegret(10, 100, 20, 0.2, 0.5, 0.9, (ConfusionCost(TOOL, ORDINARY, 15, 0.4),)),
    EvictionRegret(
        30,
        300,
        40,
        0.4,
        0.6,
        0.8,
        (ConfusionCost(TOOL, ORDINARY, 30, 0.5), ConfusionCost(DECISION, TOOL, 10, 0.3)),
    ),
]


def test_predictions_weigh_alike() -> None:
    report = regret_report(TRACES, CONTEXT)
    assert report.num_positions == 40
    assert report.accuracy == pytest.approx(1 - 60 / 400)
    assert report.kl_gold.value == pytest.approx((10 * 0.2 + 30 * 0.4) / 40)
    assert report.regret.value == pytest.approx((10 * 0.3 + 30 * 0.2) / 40)
    assert report.regret.value == pytest.approx(report.kl_tagger.value - report.kl_gold.value)
    assert report.regret.low is not None
    assert report.regret.high is not None
    assert 0.2 - 1e-9 <= report.regret.low < report.regret.value < report.regret.high <= 0.3 + 1e-9


def test_confusions_count_where_they_occur_the_costliest_first() -> None:
    costly, helpful = regret_report(TRACES, CONTEXT).confusions
    assert (costly.gold, costly.predicted) == (TOOL, ORDINARY)
    assert costly.num_tokens == 45
    assert costly.num_traces == 2
    assert costly.regret.value == pytest.approx((10 * 0.2 + 30 * 0.1) / 40)
    assert helpful.num_traces == 1
    assert helpful.regret.value == pytest.approx(-0.1)
    assert helpful.regret.low is None


def test_the_section_tells_it_in_words_and_json() -> None:
    section = regret_section(regret_report(TRACES, CONTEXT))
    assert "85% of the tokens right" in section.paragraphs[1]
    assert "1 more have no assistant's text" in section.paragraphs[0]
    assert section.table is not None
    assert section.table.rows[0][0] == "tool_summary taken for ordinary_context"
    assert json.loads(json.dumps(dict(section.data), allow_nan=False)) == section.data


def test_traces_that_the_tagger_was_trained_on_are_counted() -> None:
    assert "trained on" not in regret_section(regret_report(TRACES, CONTEXT)).paragraphs[1]
    context = dataclasses.replace(CONTEXT, tagger="the classifier", num_trained_on=2)
    section = regret_section(regret_report(TRACES, context))
    assert "The classifier was trained on 2 of these traces" in section.paragraphs[1]
    assert section.data["trained_on"] == 2


def test_small_divergences_keep_three_digits() -> None:
    small = EvictionRegret(
        10, 100, 20, 0.000123456, 0.000345678, 12.3456, (ConfusionCost(TOOL, ORDINARY, 15, 0.0002),)
    )
    section = regret_section(regret_report([small], CONTEXT))
    assert "0.000123 with the gold regions, 0.000346 with" in section.paragraphs[1]
    assert "12.3 without" in section.paragraphs[1]
    assert "cost 0.000222." in section.paragraphs[1]
    assert section.table is not None
    assert section.table.rows[0][3] == "7.65e-05"


def test_no_traces_are_refused() -> None:
    with pytest.raises(ValueError, match="at least one trace"):
        regret_report([], CONTEXT)
