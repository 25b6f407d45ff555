"""Files that are one long list of records, or an object around one."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from memdecay.data.formats.report import ImportReport
from memdecay.data.importing import TraceImport
from memdecay.data.trace import Trace
from tests.data.formats.samples import CHAT, SAMPLES
from tests.data.peak import count_and_peak

# Formats whose records are conversations of their own, so that a list of them is a long one.
_OF_RECORDS = ("anthropic", "langsmith", "memdecay", "openai-chat", "sharegpt", "tau-bench")
_LISTS = {"tau2": "simulations", "inspect": "samples", "otel-genai": "resourceSpans"}


def _import(path: Path) -> tuple[list[Trace], ImportReport]:
    traces = TraceImport([path])
    return list(traces), traces.reports[0]


def _write(folder: Path, text: str) -> Path:
    folder.mkdir(exist_ok=True)
    path = folder / "traces.json"
    path.write_text(text, encoding="utf-8")
    return path


def _as_list(records: list[Any], indent: int | None = 1) -> str:
    return json.dumps(records, indent=indent)


def _as_lines(records: list[Any]) -> str:
    return "".join(f"{json.dumps(record)}\n" for record in records)


def _records(content: bytes) -> list[Any]:
    try:
        value = json.loads(content)
    except ValueError:
        value = [json.loads(line) for line in content.splitlines()]
    return value if isinstance(value, list) else [value]


def _chat(*texts: str, **more: Any) -> dict[str, Any]:
    roles = ("user", "assistant")
    return {"messages": [{"role": roles[i % 2], "content": t} for i, t in enumerate(texts)]} | more


def _object(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(
        next(s.content for s in SAMPLES if s.format == name and s.name.endswith(".json"))
    )
    return found


@pytest.mark.parametrize(
    "sample",
    [sample for sample in SAMPLES if sample.format in _OF_RECORDS and sample.name != "bare.json"],
    ids=lambda sample: f"{sample.format}-{sample.name}",
)
@pytest.mark.parametrize("indent", [None, 1])
def test_a_list_gives_the_traces_of_its_records_in_lines(
    sample: Any, indent: int | None, tmp_path: Path
) -> None:
    records = _records(sample.content) + _records(sample.content)

    listed, list_report = _import(_write(tmp_path / "list", _as_list(records, indent)))
    lined, line_report = _import(_write(tmp_path / "lines", _as_lines(records)))

    assert listed == lined
    assert list_report.format == line_report.format == sample.format
    for verb in ("repaired", "skipped", "noticed"):
        counts = [
            {finding.what: finding.count for finding in getattr(report, verb)}
            for report in (list_report, line_report)
        ]
        assert counts[0] == counts[1]


_TEXTS = st.lists(st.text("ab \0\x1b[1m\ud800", min_size=1, max_size=9), min_size=1, max_size=4)


@settings(deadline=None, max_examples=40, suppress_health_check=[HealthCheck.too_slow])
@given(chats=st.lists(_TEXTS, min_size=2, max_size=6), indent=st.sampled_from([None, 2]))
def test_any_list_of_chats_gives_what_its_lines_give(
    chats: list[list[str]], indent: int | None, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.getbasetemp()
    records = [_chat("first", *texts, id=str(number)) for number, texts in enumerate(chats)]

    listed, list_report = _import(_write(folder / "list", _as_list(records, indent)))
    lined, line_report = _import(_write(folder / "lines", _as_lines(records)))

    assert listed == lined
    assert [(f.what, f.count) for f in list_report.repaired] == [
        (f.what, f.count) for f in line_report.repaired
    ]


@pytest.mark.parametrize("name", _LISTS)
@pytest.mark.parametrize("is_list_first", [True, False])
def test_an_object_with_a_long_list_gives_what_reading_it_whole_gives(
    name: str, is_list_first: bool, tmp_path: Path
) -> None:
    value = _object(name)
    listed = value.pop(_LISTS[name])
    items = [
        json.loads(json.dumps(item).replace("12:04", f"12:{n}"))
        for n in range(3)
        for item in listed
    ]
    ordered = {_LISTS[name]: items, **value} if is_list_first else {**value, _LISTS[name]: items}

    whole, _ = _import(_write(tmp_path / "whole", json.dumps(ordered)))  # One line is read whole.
    streamed, report = _import(_write(tmp_path / "streamed", json.dumps(ordered, indent=1)))

    assert report.format == name
    assert len(streamed) >= 1
    assert streamed == whole


@pytest.mark.parametrize("items", [[], [5], None, {"a": 1}])
@pytest.mark.parametrize("name", ["tau2", "inspect"])
def test_an_object_whose_list_holds_nothing_is_reported(
    name: str, items: Any, tmp_path: Path
) -> None:
    value = _object(name) | {_LISTS[name]: items}
    other = _write(tmp_path / "other", _as_lines([_chat("a")]))
    path = _write(tmp_path / "a", json.dumps(value, indent=1))

    importing = TraceImport([other, path], None)
    list(importing)

    assert importing.reports[1].traces == 0
    assert importing.reports[1].skipped


@pytest.mark.parametrize("name", ["langsmith", "langfuse", "openai-chat", "sharegpt", "tau-bench"])
@pytest.mark.parametrize("indent", [None, 1])
def test_pages_with_records_in_an_object_are_opened(
    name: str, indent: int | None, tmp_path: Path
) -> None:
    content = next(sample.content for sample in SAMPLES if sample.format == name)
    page = {"data": _records(content) * 2, "meta": {"page": 1}}

    traces, report = _import(_write(tmp_path / "page", json.dumps(page, indent=indent)))
    listed, _ = _import(_write(tmp_path / "list", _as_list(page["data"])))

    assert report.format == name
    assert traces == listed
    assert "meta beside the records" in {finding.what for finding in report.skipped}


def test_a_page_without_a_list_is_noted(tmp_path: Path) -> None:
    pages = [{"data": [_chat("a")]}, {"data": {"error": "limit"}}]
    text = "\n".join(json.dumps(page, indent=1) for page in pages)

    traces, report = _import(_write(tmp_path / "a", text))

    assert len(traces) == 1
    assert [finding.what for finding in report.skipped] == ["data beside the records"]


def test_a_list_of_messages_with_odd_ones_first_is_one_conversation(tmp_path: Path) -> None:
    messages = [{"role": "system"}, *CHAT]

    traces, _ = _import(_write(tmp_path / "a", _as_list(messages)))

    assert len(traces) == 1
    assert "".join(message.role[0] for message in traces[0].messages).endswith("suata")


def test_a_broken_record_costs_itself_and_is_named(tmp_path: Path) -> None:
    records = [_chat(str(number), "b", id=f"t{number}") for number in range(5)]
    text = _as_list(records).replace('"2"', '"2', 1)

    traces, report = _import(_write(tmp_path / "a", text))

    assert [trace.id for trace in traces if len(trace.messages) == 2] == ["t0", "t1", "t3", "t4"]
    repaired = {finding.what: finding.where for finding in report.repaired}
    assert repaired["broken JSON read up to the break"] == "item 3"


@pytest.mark.parametrize("share", [0.3, 0.5, 0.9, 0.999])
def test_a_list_cut_off_keeps_the_records_before(share: float, tmp_path: Path) -> None:
    records = [_chat(str(number), "b", id=f"t{number}") for number in range(9)]
    text = _as_list(records)
    text = text[: int(len(text) * share)]

    traces, report = _import(_write(tmp_path / "a", text))

    whole = text.count('"id":')
    assert [trace.id for trace in traces][: whole - 1] == [f"t{n}" for n in range(whole - 1)]
    assert "broken JSON read up to the break" in {finding.what for finding in report.repaired}


def _long_list(before: str, record: Any, num: int, behind: str) -> Iterator[str]:
    yield before
    for number in range(num):
        yield f"{',' if number else ''}\n{json.dumps(record(number), indent=1)}"
    yield f"\n{behind}"


def _simulation(number: int) -> dict[str, Any]:
    return {"task_id": f"t{number}", "reward_info": {}, **_chat("a" * 4_000, f"{number}")}


@pytest.mark.parametrize(
    ("before", "record", "behind"),
    [
        ("[", lambda number: _chat(f"{number} {'x' * 3_000}", "y" * 1_500), "]"),
        ('{"info": {}, "simulations": [', _simulation, '], "tasks": []}'),
        ('{"meta": {"page": 1}, "data": [', lambda number: _chat("x" * 4_000, f"{number}"), "]}"),
    ],
)
def test_lists_stream_in_constant_memory(
    before: str, record: Any, behind: str, tmp_path: Path
) -> None:
    peaks, path = [], tmp_path / "big.json"
    for num_records in (800, 1_600):
        with path.open("w", encoding="utf-8") as stream:
            stream.writelines(_long_list(before, record, num_records, behind))
        count, peak = count_and_peak(TraceImport([path]))
        assert count == num_records
        peaks.append(peak)

    # A window of conversations is held back to find longer versions of them.
    assert peaks[1] < 1.1 * peaks[0]
