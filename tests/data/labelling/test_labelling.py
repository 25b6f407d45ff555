from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import krippendorff
import numpy as np
import pytest
from sklearn.metrics import cohen_kappa_score, f1_score

from memdecay.classifier.errors import TraceError
from memdecay.classifier.regions import Region
from memdecay.classifier.rules import Rule
from memdecay.classifier.rules.rule import Proposal
from memdecay.data.jsonl import read_traces
from memdecay.data.labelling.agreement import (
    SECOND_FIELD,
    Unpaired,
    measure_agreement,
    pair_by_id,
    second_labelling,
)
from memdecay.data.labelling.arrays import character_labels
from memdecay.data.labelling.confusion import accuracy, cohen_kappa, krippendorff_alpha, macro_f1
from memdecay.data.labelling.rule_report import RuleReport
from memdecay.data.labelling.weak import label_trace, label_traces
from memdecay.data.trace import Message, Span, Trace
from tests.data.peak import count_and_peak

TRACE = Trace("t", (Message("user", "hello you"),), spans=(Span(0, 0, 9, Region.KEY_DECISION),))


def test_rules_cover_a_trace_whole() -> None:
    result = label_trace(TRACE)
    assert all((labels >= 0).all() for labels in character_labels(result.labelled_trace))


def _rule(name: str, num_lines: int, region: Region, weight: float = 1.0) -> Rule:
    """Return a rule that proposes a region for the first lines, of three characters each."""
    return Rule(name, "", lambda _: [Proposal(0, 0, 3 * num_lines, region, 1.0)], weight)


def test_coverage_conflicts_losses_and_accuracy_are_counted_per_rule() -> None:
    rules = [
        _rule("right", 2, Region.KEY_DECISION, 2.0),
        _rule("wrong", 1, Region.TOOL_SUMMARY),
        _rule("alone", 3, Region.KEY_DECISION),
    ]
    lines = Message("user", "ab\ncd\nef\n")
    report = RuleReport()
    report.add(label_trace(replace(TRACE, messages=(lines,)), rules))

    assert [
        (rule.name, rule.covered, rule.conflicts, rule.overruled, rule.judged, rule.right)
        for rule in report.rules
    ] == [("right", 6, 3, 0, 6, 6), ("wrong", 3, 3, 3, 3, 0), ("alone", 9, 3, 0, 9, 9)]
    assert report.to_dict()["rules"][2] == {
        "name": "alone",
        "coverage": 1.0,
        "conflicts": pytest.approx(1 / 3),
        "overruled": 0.0,
        "accuracy": 1.0,
    }


def test_agreement_with_oneself_is_full() -> None:
    two = Span(0, 0, 4, Region.TOOL_SUMMARY), Span(0, 4, 9, Region.KEY_DECISION)
    trace = replace(TRACE, spans=two)
    figures = measure_agreement([(trace, trace)]).to_dict()
    assert [figures[k] for k in ("accuracy", "cohen_kappa", "krippendorff_alpha", "macro_f1")] == [
        1.0
    ] * 4


@pytest.mark.parametrize("num_regions", [1, 2, 3, 5])
@pytest.mark.parametrize("agreeing", [0.0, 0.5, 0.95, 1.0])
def test_figures_of_agreement_are_those_of_the_packages(num_regions: int, agreeing: float) -> None:
    rng = np.random.default_rng(num_regions)
    first = rng.integers(0, num_regions, 200)
    second = np.where(rng.random(200) < agreeing, first, rng.integers(0, num_regions, 200))
    confusion = np.zeros((5, 5), np.int64)
    np.add.at(confusion, (first, second), 1)
    if num_regions == 1:
        assert np.isnan(krippendorff_alpha(confusion))
        assert np.isnan(cohen_kappa(confusion))
        return
    alpha = krippendorff.alpha([first, second], level_of_measurement="nominal")
    assert krippendorff_alpha(confusion) == pytest.approx(alpha)
    assert cohen_kappa(confusion) == pytest.approx(cohen_kappa_score(first, second))
    assert accuracy(confusion) == pytest.approx((first == second).mean())
    assert macro_f1(confusion) == pytest.approx(f1_score(first, second, average="macro"))


def test_an_unlabelled_character_counts_on_neither_side() -> None:
    spans = (Span(0, 0, 4, Region.TOOL_SUMMARY), Span(0, 4, 9, Region.KEY_DECISION))
    first = replace(TRACE, spans=spans)
    second = replace(TRACE, spans=(Span(0, 2, 7, Region.KEY_DECISION),))
    found = measure_agreement([(first, second)])
    assert found.characters == 5
    assert found.to_dict()["accuracy"] == pytest.approx(3 / 5)


def test_figures_of_nothing_are_defined_or_nan() -> None:
    empty = np.zeros((5, 5), np.int64)
    assert (accuracy(empty), macro_f1(empty)) == (0.0, 0.0)
    assert np.isnan(cohen_kappa(empty))
    assert np.isnan(krippendorff_alpha(empty))


def test_labellings_of_other_texts_are_refused() -> None:
    with pytest.raises(TraceError, match="another text"):
        measure_agreement([(TRACE, replace(TRACE, messages=(Message("user", "x"),)))])
    with pytest.raises(TraceError, match="share no trace"):
        measure_agreement(pair_by_id([TRACE], []))


def test_traces_are_paired_by_their_ids_and_the_rest_is_counted() -> None:
    first = [replace(TRACE, id=name) for name in ("a", "b", "c")]
    second = [replace(TRACE, id=name, spans=()) for name in ("c", "d", "a\ud800", "a", "e")]
    unpaired = Unpaired()
    pairs = list(pair_by_id(first, second, unpaired))
    assert pairs == [(first[0], second[3]), (first[2], second[0])]
    assert (unpaired.first, unpaired.second) == (1, 3)


@pytest.mark.parametrize(
    ("first", "second", "match"),
    [([TRACE] * 2, [TRACE], "the first"), ([TRACE], [TRACE] * 2, "second")],
)
def test_an_id_that_stands_twice_is_refused(
    first: list[Trace], second: list[Trace], match: str
) -> None:
    with pytest.raises(TraceError, match=f"'t' stands twice in .*{match}"):
        list(pair_by_id(first, second))


def test_pairing_holds_no_file_in_memory() -> None:
    def traces(count: int) -> Iterator[Trace]:
        for number in range(count):
            text = f"{number} {'word ' * 200}"
            spans = (Span(0, 0, len(text), Region.KEY_DECISION),)
            yield Trace(f"t{number}", (Message("user", text),), spans=spans)

    def peak(count: int) -> int:
        found, most = count_and_peak(pair_by_id(traces(count), traces(count)))
        assert found == count
        return most

    assert peak(800) < peak(100) + 500_000


def test_a_second_labelling_that_does_not_fit_is_refused() -> None:
    bad = replace(TRACE, extra=((SECOND_FIELD, [{"message": 9}]),))
    with pytest.raises(TraceError, match=SECOND_FIELD):
        second_labelling(bad)
    assert second_labelling(TRACE) is None


@pytest.fixture(scope="module")
def gold(shared_dir: Path) -> list[Trace]:
    return list(read_traces(shared_dir / "gold" / "gold_dev.jsonl"))


def test_two_annotators_of_gold_agree(gold: list[Trace]) -> None:
    pairs = [(t, second) for t in gold if (second := second_labelling(t))]
    figures = measure_agreement(pairs).to_dict()
    assert figures["traces"] == 7
    assert figures["cohen_kappa"] == pytest.approx(0.927, abs=0.001)
    assert figures["krippendorff_alpha"] == pytest.approx(0.927, abs=0.001)


@pytest.mark.parametrize(("lookahead", "floor"), [(True, 0.8), (False, 0.77)])
def test_rules_beat_the_floor_on_gold(gold: list[Trace], lookahead: bool, floor: float) -> None:
    report = RuleReport()
    for result in label_traces(gold, lookahead=lookahead):
        report.add(result)
    figures = report.to_dict()["against_gold"]
    assert figures["macro_f1"] > floor
    assert min(figures["f1"].values()) > 0.6
