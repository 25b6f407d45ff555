from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memdecay.classifier.errors import TraceError
from memdecay.classifier.regions import Region
from memdecay.data.labelling.arrays import spans_from_labels
from memdecay.data.labelling.label_studio import labeling_config, to_tasks, write_tasks
from memdecay.data.labelling.studio_export import ExportAccount, from_tasks, read_export
from memdecay.data.trace import Message, Span, Trace
from tests.data.peak import count_and_peak

REGIONS = list(Region)
TRACE = Trace("t", (Message("user", "hello you"),), spans=(Span(0, 0, 9, Region.KEY_DECISION),))


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
        ("", "no list of tasks"),
        ("{}", "no list of tasks"),
        ("[", "not JSON"),
        ('[{"data": {}}', "not JSON"),
        ('[{"data": {}} {"data": {}}]', "not JSON"),
        ('[{"data": {}}] [', "not JSON"),
        ("[{}]", "item 1 is no task"),
        ('[{"data": {}}, {"data": {}, "annotations": {"a": 1}}]', "item 2 is no task"),
        ('[{"data": {}, "annotations": [3]}]', "is no task"),
        ('[{"data": {}, "annotations": [{"result": [4]}]}]', "is no task"),
        ('[{"data": {}, "annotations": [{"result": [{"value": "x"}]}]}]', "is no task"),
        (None, "cannot read"),
    ],
)
def test_an_export_that_is_none_is_refused(tmp_path: Path, text: str | None, match: str) -> None:
    path = tmp_path / "export.json"
    if text is not None:
        path.write_text(text)
    with pytest.raises(TraceError, match=match):
        list(read_export(path))


def test_an_export_without_annotations_is_refused() -> None:
    with pytest.raises(TraceError, match="holds no annotation of these traces"):
        list(from_tasks([TRACE], to_tasks([TRACE])))


def test_written_tasks_are_read_back(tmp_path: Path) -> None:
    path = tmp_path / "tasks.json"
    assert write_tasks([TRACE], path) == 1
    assert list(read_export(path)) == json.loads(path.read_text()) == list(to_tasks([TRACE]))


def by_hand(text: str, *marks: tuple[int, int, str], **fields: Any) -> dict[str, Any]:
    """Return a task as exported after a person has drawn its marks.

    Label Studio writes line breaks in a mark's own text as a backslash and an n.
    """
    results: list[dict[str, Any]] = [
        {
            "value": {
                "start": start,
                "end": end,
                "text": text[start:end].replace("\n", "\\n").replace("\r", "\\n"),
                "labels": [region],
            },
            "id": f"x{start}",
            "from_name": "region",
            "to_name": "text",
            "type": "labels",
            "origin": "manual",
        }
        for start, end, region in marks
    ]
    annotation = {
        "id": 7,
        "completed_by": {"id": 3, "email": "a@example.org"},
        "result": results,
        "was_cancelled": False,
        "ground_truth": False,
        "created_at": "2026-01-02T10:00:00.000000Z",
        "updated_at": "2026-01-02T10:00:00.000000Z",
        "lead_time": 3.1,
    }
    data = {"trace_id": "t", "message": 0, "role": "user", "text": text}
    task = {"id": 1, "annotations": [{**annotation, **fields}], "drafts": [], "predictions": []}
    return {**task, "data": data, "meta": {}, "inner_id": 1, "file_upload": "tasks.json"}


@pytest.mark.parametrize("text", ["🙂🙂 one\ntwo\n🙂 three", "one\r\ntwo", "a\nb", "tab\tone\n"])
def test_marks_drawn_over_line_breaks_lie_where_they_were_drawn(text: str) -> None:
    trace = Trace("t", (Message("user", text),))
    task = by_hand(text, (1, len(text), "key_decision"))
    account = ExportAccount()
    [found] = from_tasks([trace], [task], account=account)
    assert found.spans == (Span(0, 1, len(text), Region.KEY_DECISION),)
    assert account.lines() == []


def test_a_mark_whose_text_stands_elsewhere_is_told() -> None:
    task = by_hand("hello you", (0, 5, "key_decision"))
    task["annotations"][0]["result"][0]["value"]["text"] = "goodbye"
    account = ExportAccount()
    [found] = from_tasks([TRACE], [task], account=account)
    assert found.spans == (Span(0, 0, 5, Region.KEY_DECISION),)
    assert account.misplaced_marks == 1
    assert "1 marks whose text" in account.lines()[0]


def test_a_correction_replaces_the_prediction() -> None:
    predicted = to_tasks([TRACE])
    [task] = ({**task, **by_hand("hello you", (6, 9, "tool_summary"))} for task in predicted)
    [found] = from_tasks([TRACE], [task])
    assert found.spans == (Span(0, 6, 9, Region.TOOL_SUMMARY),)


def test_of_marks_on_the_same_text_the_later_counts() -> None:
    task = by_hand("hello you", (0, 9, "key_decision"), (0, 5, "ordinary_context"))
    relation = {"type": "relation", "from_id": "a", "to_id": "b", "direction": "right"}
    task["annotations"][0]["result"].append(relation)
    [found] = from_tasks([TRACE], [task])
    assert [(s.start, s.end, s.region.label) for s in found.spans] == [
        (0, 5, "ordinary_context"),
        (5, 9, "key_decision"),
    ]


def test_of_a_message_that_was_imported_twice_the_newest_annotation_counts() -> None:
    newer = by_hand("hello you", (0, 5, "tool_summary"), updated_at="2026-02-01T00:00:00Z")
    older = by_hand("hello you", (3, 9, "key_decision"))
    for tasks in ([older, newer], [newer, older]):
        [found] = from_tasks([TRACE], tasks)
        assert found.spans == (Span(0, 0, 5, Region.TOOL_SUMMARY),)


def test_what_is_left_out_is_told() -> None:
    first = Trace("t", (Message("user", "hello you"), Message("assistant", "yes")))
    second = replace(first, id="u")
    marked = by_hand("hello you", (0, 9, "key_decision"))
    skipped = by_hand("yes", (0, 3, "key_decision"), was_cancelled=True)
    skipped["data"]["message"] = 1
    foreign = by_hand("hello you", (0, 9, "key_decision"))
    foreign["data"]["trace_id"] = "elsewhere"
    account = ExportAccount()
    found = list(from_tasks([first, second], [marked, skipped, foreign], account=account))
    assert [trace.id for trace in found] == ["t"]
    assert asdict(account) == {
        "tasks": 3,
        "not_annotated": 1,
        "of_other_traces": 1,
        "left_out": 1,
        "bare_messages": 1,
        "misplaced_marks": 0,
    }
    assert len(account.lines()) == 4


def test_tasks_go_out_and_come_back_in_constant_memory(tmp_path: Path) -> None:
    def traces(count: int) -> Iterator[Trace]:
        for number in range(count):
            text = f"{number} {'word ' * 200}"
            span = Span(0, 0, len(text), REGIONS[number % len(REGIONS)])
            yield Trace(f"t{number}", (Message("user", text),), spans=(span,))

    def peak(count: int) -> int:
        path = tmp_path / f"{count}.json"
        write_tasks(traces(count), path)
        tasks = ({**task, "annotations": task["predictions"]} for task in read_export(path))
        found, most = count_and_peak(from_tasks(traces(count), tasks))
        assert found == count
        return most

    assert peak(800) < peak(100) + 500_000
