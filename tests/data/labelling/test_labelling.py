from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memdecay.classifier.errors import TraceError
from memdecay.classifier.regions import Region
from memdecay.data.jsonl import read_traces
from memdecay.data.labelling.agreement import (
    SECOND_FIELD,
    measure_agreement,
    pair_by_id,
    second_labelling,
)
from memdecay.data.labelling.arrays import character_labels, spans_from_labels
from memdecay.data.labelling.confusion import accuracy, cohen_kappa, krippendorff_alpha, macro_f1
from memdecay.data.labelling.label_studio import (
    from_tasks,
    labeling_config,
    read_export,
    to_tasks,
    write_tasks,
)
from memdecay.data.labelling.rule_report import RuleReport
from memdecay.data.labelling.weak import label_trace, label_traces
from memdecay.data.trace import Message, Span, Trace

TEXTS = st.text(
    st.characters(exclude_categories=["Cs"]) | st.sampled_from("🙂a\n"), min_size=1, max_size=30
)


@st.composite
def labelled(draw: st.DrawFn) -> Trace:
    texts = draw(st.lists(TEXTS, min_size=1, max_size=4))
    labels = [
        np.array(draw(st.lists(st.integers(-1, 4), min_size=len(t), max_size=len(t))), np.int8)
        for t in texts
    ]
    messages = tuple(Message("user", text) for text in texts)
    return Trace("t", messages, spans=spans_from_labels(labels))


def annotated(trace: Trace, *, utf16: bool = False) -> list[dict[str, object]]:
    """Return what Label Studio exports after its predictions were accepted as they are."""
    tasks = list(to_tasks([trace]))
    for task in tasks:
        results = [r for p in task.get("predictions", ()) for r in p["result"]]
        text = task["data"]["text"]
        for value in (result["value"] for result in results):
            if utf16:
                for key in ("start", "end"):
                    value[key] = len(text[: value[key]].encode("utf-16-le")) // 2
        task["annotations"] = [{"result": results, "completed_by": 1}]
    return tasks


@settings(max_examples=80, deadline=None)
@given(labelled())
def test_labels_survive_label_studio(trace: Trace) -> None:
    expected = [trace] if trace.spans else []
    assert list(from_tasks([trace], annotated(trace))) == expected


def test_offsets_in_utf16_units_are_understood() -> None:
    spans = (Span(0, 0, 2, Region.KEY_DECISION), Span(0, 2, 6, Region.TOOL_SUMMARY))
    trace = Trace("t", (Message("user", "🙂🙂abcd"),), spans=spans)
    assert list(from_tasks([trace], annotated(trace, utf16=True))) == [trace]


def test_the_interface_has_all_regions() -> None:
    assert all(f'value="{region.label}"' in labeling_config() for region in Region)


TRACE = Trace("t", (Message("user", "hello you"),), spans=(Span(0, 0, 9, Region.KEY_DECISION),))


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"end": 99}, "after the text"),
        ({"start": 5, "end": 2}, "goes from 5 to 2"),
        ({"labels": []}, "expected one region"),
        ({"labels": ["nonsense"]}, "unknown region"),
    ],
)
def test_a_mark_that_does_not_fit_is_refused(change: dict[str, object], match: str) -> None:
    tasks = annotated(TRACE)
    tasks[0]["annotations"][0]["result"][0]["value"].update(change)  # type: ignore[index]
    with pytest.raises(TraceError, match=match):
        list(from_tasks([TRACE], tasks))


@pytest.mark.parametrize(
    ("change", "match"), [({"text": "other"}, "another text"), ({"message": 7}, "no message")]
)
def test_a_task_of_another_file_is_refused(change: dict[str, object], match: str) -> None:
    tasks = annotated(TRACE)
    tasks[0]["data"].update(change)  # type: ignore[attr-defined]
    with pytest.raises(TraceError, match=match):
        list(from_tasks([TRACE], tasks))


def test_an_annotator_can_be_chosen() -> None:
    assert list(from_tasks([TRACE], annotated(TRACE), annotator=1)) == [TRACE]
    with pytest.raises(TraceError, match="the annotator who worked on them"):
        list(from_tasks([TRACE], annotated(TRACE), annotator=2))


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("{", "not JSON"),
        ("{}", "no list of tasks"),
        ("[{}]", "no list of tasks"),
        ('[{"data": {}, "annotations": {"a": 1}}]', "no list of tasks"),
        ('[{"data": {}, "annotations": [3]}]', "no list of tasks"),
        ('[{"data": {}, "annotations": [{"result": [4]}]}]', "no list of tasks"),
        ('[{"data": {}, "annotations": [{"result": [{"value": "x"}]}]}]', "no list of tasks"),
        (None, "does not exist"),
    ],
)
def test_an_export_that_is_none_is_refused(tmp_path: Path, text: str | None, match: str) -> None:
    path = tmp_path / "export.json"
    if text is not None:
        path.write_text(text)
    with pytest.raises(TraceError, match=match):
        read_export(path)


def test_an_export_without_annotations_is_refused() -> None:
    with pytest.raises(TraceError, match="holds no annotation of these traces"):
        list(from_tasks([TRACE], to_tasks([TRACE])))


def test_written_tasks_are_read_back(tmp_path: Path) -> None:
    path = tmp_path / "tasks.json"
    assert write_tasks([TRACE], path) == 1
    assert read_export(path) == list(to_tasks([TRACE]))


def test_rules_cover_a_trace_whole() -> None:
    result = label_trace(TRACE)
    assert all((labels >= 0).all() for labels in character_labels(result.labelled_trace))


def test_agreement_with_oneself_is_full() -> None:
    two = Span(0, 0, 4, Region.TOOL_SUMMARY), Span(0, 4, 9, Region.KEY_DECISION)
    trace = replace(TRACE, spans=two)
    figures = measure_agreement([(trace, trace)]).to_dict()
    assert [figures[k] for k in ("accuracy", "cohen_kappa", "krippendorff_alpha", "macro_f1")] == [
        1.0
    ] * 4


def test_alpha_is_that_of_all_pairs() -> None:
    rng = np.random.default_rng(0)
    units = rng.integers(0, 3, (60, 2))
    confusion = np.zeros((5, 5), np.int64)
    np.add.at(confusion, (units[:, 0], units[:, 1]), 1)
    values = units.ravel()
    observed = float((units[:, 0] != units[:, 1]).mean())
    differ = (values[:, None] != values[None, :]).sum()
    expected = differ / (len(values) * (len(values) - 1))
    assert krippendorff_alpha(confusion) == pytest.approx(1 - observed / expected)


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
