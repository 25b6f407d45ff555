from __future__ import annotations

import gzip
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memdecay.classifier import storage
from memdecay.classifier.errors import StorageError, TraceError
from memdecay.classifier.regions import Region
from memdecay.data.jsonl import read_labelled_traces, read_traces, write_traces
from memdecay.data.trace import Message, Span, Trace

MESSAGES: list[dict[str, Any]] = [
    {"role": "system", "content": "Be kind."},
    {"role": "user", "content": "Hello there", "truncated": True, "name": "Ann"},
    {"role": "assistant", "content": None, "tool_calls": [{"id": "1", "function": {"name": "f"}}]},
    {"role": "tool", "content": "ok", "tool_call_id": "1"},
]


def write_lines(path: Path, *lines: Any) -> Path:
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines), encoding="utf-8")
    return path


def labelled(*spans: dict[str, Any]) -> dict[str, Any]:
    return {"id": "t", "messages": MESSAGES, "spans": list(spans)}


def span(message: int, start: int, end: int, region: str = "key_decision") -> dict[str, Any]:
    return {"message": message, "start": start, "end": end, "region": region}


def test_labelled_trace_is_read(tmp_path: Path) -> None:
    line = labelled(span(1, 6, 11, "recent_dialogue"), span(0, 0, 8, "system_instruction"))
    path = write_lines(tmp_path / "t.jsonl", line | {"source": "here", "task_id": "7"})
    (trace,) = read_labelled_traces(path)
    assert (trace.id, trace.source, trace.task_id) == ("t", "here", "7")
    assert trace.spans == (
        Span(0, 0, 8, Region.SYSTEM_INSTRUCTION),
        Span(1, 6, 11, Region.RECENT_DIALOGUE),
    )
    assert trace.messages[1] == Message(
        "user", "Hello there", extra=(("truncated", True), ("name", "Ann"))
    )
    assert trace.messages[2].content == ""
    assert trace.messages[2].tool_calls == ({"id": "1", "function": {"name": "f"}},)


def test_bare_list_is_named_after_file_and_line(tmp_path: Path) -> None:
    path = tmp_path / "chats.jsonl"
    path.write_text(f"\n{json.dumps(MESSAGES)}\n\n", encoding="utf-8")
    (trace,) = read_traces(path)
    assert trace.id == "chats.jsonl:2"
    assert len(trace.messages) == len(MESSAGES)


def test_content_blocks_become_text(tmp_path: Path) -> None:
    blocks = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    path = write_lines(tmp_path / "t.jsonl", [{"role": "user", "content": blocks}])
    (trace,) = read_traces(path)
    assert trace.messages[0].content == "a\nb"


def test_reading_is_a_stream(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "t.jsonl", MESSAGES)
    with path.open("a", encoding="utf-8") as stream:
        stream.write("no JSON\n")
    traces = read_traces(path)
    assert next(traces).messages[0].role == "system"
    with pytest.raises(TraceError, match="line 2 is not JSON"):
        next(traces)


def test_byte_order_mark_and_hostile_characters_are_read(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    line = '[{"role": "user", "content": "nul \\u0000, half \\ud800, line \u2028 你好"}]'
    path.write_bytes(b"\xef\xbb\xbf" + line.encode() + b"\r\n")
    (trace,) = read_traces(path)
    assert trace.messages[0].content == "nul \0, half \ud800, line \u2028 你好"


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("{", "line 1 is not JSON"),
        ("[" * 100_000, "line 1 is not JSON"),
        ('"text"', "expected an object with messages or a list of messages, got text"),
        ("3", "got a number"),
        ("null", "got null"),
        ("{}", "no field 'messages'"),
        ('{"messages": {}}', "messages must be a list, got an object"),
        ('{"messages": []}', "messages is empty"),
        ("[]", "messages is empty"),
        ('["hi"]', r"messages\[0\] must be an object, got text"),
        ('[{"content": "x"}]', r"messages\[0\] has no role"),
        ('[{"role": "", "content": "x"}]', r"messages\[0\] has no role"),
        ('[{"role": 1}]', r"messages\[0\] has no role"),
        ('[{"role": "user", "tool_calls": "x"}]', r"messages\[0\].tool_calls must be a list"),
        ('{"messages": [{"role": "user"}], "spans": {}}', "spans must be a list"),
        ('{"messages": [{"role": "user"}], "spans": [1]}', r"spans\[0\] must be an object"),
    ],
)
def test_bad_line_is_named(tmp_path: Path, line: str, reason: str) -> None:
    path = tmp_path / "t.jsonl"
    path.write_text(f"{line}\n", encoding="utf-8")
    with pytest.raises(TraceError, match=reason) as caught:
        list(read_traces(path))
    assert str(caught.value).startswith(f"{path}, line 1")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("spans", "reason"),
    [
        ([span(0, 0, 4, "important")], r"spans\[0\]: unknown region 'important'; expected one of"),
        ([span(0, 0, 9)], r"spans\[0\] goes from 0 to 9, but messages\[0\] has 8 characters"),
        ([span(0, -1, 2)], "goes from -1 to 2"),
        ([span(0, 2, 2)], "goes from 2 to 2"),
        ([span(0, 0, 1), span(4, 0, 1)], r"spans\[1\] is on message 4, but the trace has 4"),
        ([span(-1, 0, 1)], "is on message -1"),
        ([span(1, 4, 8), span(1, 0, 5)], r"spans overlap in messages\[1\]: 0 to 5 and 4 to 8"),
        ([span(0, 0, 1) | {"end": 1.5}], r"spans\[0\].end must be a whole number, got 1.5"),
        ([span(0, 0, 1) | {"start": True}], "start must be a whole number"),
        ([{"start": 0, "end": 1, "region": "key_decision"}], "message must be a whole number"),
    ],
)
def test_bad_span_is_named(tmp_path: Path, spans: list[dict[str, Any]], reason: str) -> None:
    path = write_lines(tmp_path / "t.jsonl", MESSAGES, labelled(*spans))
    with pytest.raises(TraceError, match=reason) as caught:
        list(read_traces(path))
    assert str(caught.value).startswith(f"{path}, line 2: ")


def test_spans_that_touch_do_not_overlap(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "t.jsonl", labelled(span(0, 4, 8), span(0, 0, 4), span(1, 0, 4)))
    (trace,) = read_traces(path)
    assert len(trace.spans) == 3


def test_trace_without_spans_is_no_labelled_one(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "t.jsonl", {"id": "plain", "messages": MESSAGES})
    with pytest.raises(TraceError, match="'plain' has no spans"):
        list(read_labelled_traces(path))


def test_file_problems_are_named(tmp_path: Path) -> None:
    (tmp_path / "empty.jsonl").write_text(" \n\n")
    (tmp_path / "latin.jsonl").write_bytes(b'[{"role": "user", "content": "\xe9"}]')
    (tmp_path / "cut.jsonl.gz").write_bytes(gzip.compress(b"[" * 5000)[:-12])
    (tmp_path / "plain.jsonl.gz").write_bytes(b"[]")
    for name, reason in {
        "absent.jsonl": "does not exist",
        "empty.jsonl": "holds no traces",
        "latin.jsonl": "line 1 is not UTF-8",
        "cut.jsonl.gz": "cannot be read",
        "plain.jsonl.gz": "cannot be read",
        ".": "is a folder",
    }.items():
        with pytest.raises(TraceError, match=reason):
            list(read_traces(tmp_path / name))


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=5), inner, max_size=2)
    ),
    max_leaves=4,
)


def extras(*taken: str) -> st.SearchStrategy[tuple[tuple[str, Any], ...]]:
    names = st.text(max_size=6).filter(lambda name: name not in taken)
    return st.dictionaries(names, json_values, max_size=2).map(lambda d: tuple(d.items()))


@st.composite
def traces(draw: st.DrawFn) -> Trace:
    messages = draw(
        st.lists(
            st.builds(
                Message,
                role=st.text(min_size=1, max_size=9),
                content=st.text(st.characters(), max_size=20),
                tool_calls=st.lists(
                    st.dictionaries(st.text(max_size=5), json_values), max_size=2
                ).map(tuple),
                extra=extras("role", "content", "tool_calls"),
            ),
            min_size=1,
            max_size=4,
        )
    )
    spans = []
    for index, message in enumerate(messages):
        cuts = draw(st.lists(st.integers(0, len(message.content)), unique=True, max_size=4))
        cuts.sort()
        for start, end in zip(cuts[::2], cuts[1::2], strict=False):
            spans.append(Span(index, start, end, draw(st.sampled_from(Region))))
    return Trace(
        id=draw(st.text(max_size=9)),
        messages=tuple(messages),
        source=draw(st.text(max_size=9)),
        spans=tuple(spans),
        extra=draw(extras("id", "source", "messages", "spans")),
    )


@settings(deadline=None, max_examples=25)
@given(st.lists(traces(), min_size=1, max_size=3), st.sampled_from([".jsonl", ".jsonl.gz"]))
def test_written_traces_come_back_equal(
    tmp_path_factory: pytest.TempPathFactory, written: list[Trace], suffix: str
) -> None:
    path = tmp_path_factory.mktemp("jsonl") / f"t{suffix}"
    assert write_traces(iter(written), path) == len(written)
    assert list(read_traces(path)) == written


def test_real_traces_come_back_equal(shared_dir: Path, tmp_path: Path) -> None:
    gold = list(read_labelled_traces(shared_dir / "gold" / "gold_dev.jsonl"))
    write_traces(gold, tmp_path / "t.jsonl")
    assert list(read_traces(tmp_path / "t.jsonl")) == gold


def test_all_real_traces_are_read(shared_dir: Path) -> None:
    paths = sorted((shared_dir / "traces").glob("*.jsonl"))
    assert sum(1 for path in paths for _ in read_traces(path)) == 592


def test_full_disk_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_lines(tmp_path / "t.jsonl", MESSAGES)
    before = path.read_bytes()

    def refuse(_handle: int) -> None:
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr(storage.os, "fsync", refuse)
    with pytest.raises(StorageError, match="No space left"):
        write_traces(read_traces(path), path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_failing_source_leaves_nothing(tmp_path: Path) -> None:
    def broken() -> Iterator[Trace]:
        yield Trace("a", (Message("user"),))
        raise TraceError("bad line")

    with pytest.raises(TraceError, match="bad line"):
        write_traces(broken(), tmp_path / "t.jsonl")
    assert list(tmp_path.iterdir()) == []
