from __future__ import annotations

import gzip
import json
import os
from pathlib import Path
from typing import Any

import pytest

from memdecay.classifier.errors import TraceError
from memdecay.data.formats.report import ImportReport
from memdecay.data.importing import TraceImport
from memdecay.data.jsonl import read_traces, write_traces
from memdecay.data.trace import Trace
from tests.data.formats.samples import CHAT, SAMPLES
from tests.data.peak import count_and_peak, held_after
from tests.data.shared_counts import FORMAT_COUNTS, TRACE_COUNTS, TRACE_SKIPS

_NOT_TRACES = {"FORMATS.md", "LICENSE.upstream"}


def _import(path: Path, format_name: str | None = None) -> tuple[list[Trace], ImportReport]:
    """Return the traces of a file and its account; a file without a single one raises."""
    traces, found = TraceImport([path], format_name), []
    try:
        found = list(traces)
    except TraceError as error:
        if not str(error).startswith(f"no traces found: {path} was read as"):
            raise
    return found, traces.reports[0]


def _write(path: Path, *values: Any) -> Path:
    path.write_text("".join(f"{json.dumps(value)}\n" for value in values), encoding="utf-8")
    return path


def _chat(*texts: str, **more: Any) -> dict[str, Any]:
    roles = ("user", "assistant")
    return {"messages": [{"role": roles[i % 2], "content": t} for i, t in enumerate(texts)]} | more


def _counts(findings: Any) -> dict[str, int]:
    return {finding.what: finding.count for finding in findings}


@pytest.mark.parametrize("name", FORMAT_COUNTS)
def test_each_real_file_imports_whole(shared_dir: Path, name: str) -> None:
    traces, report = _import(shared_dir / "formats" / name)

    assert (report.format, report.traces, report.messages) == FORMAT_COUNTS[name]
    assert sum(len(trace.messages) for trace in traces) == report.messages
    assert report.traces or report.skipped


@pytest.mark.parametrize("name", TRACE_COUNTS)
def test_each_line_of_the_real_traces_imports(shared_dir: Path, name: str) -> None:
    traces, report = _import(shared_dir / "traces" / name)

    assert (report.traces, report.messages) == TRACE_COUNTS[name]
    assert _counts(report.skipped) == TRACE_SKIPS.get(name, {})
    assert not any("###STOP###" in str(trace.messages) for trace in traces)
    assert [trace.id for trace in traces] == [
        trace.id for trace in read_traces(shared_dir / "traces" / name)
    ]


def test_no_real_file_is_left_out_of_the_counts(shared_dir: Path) -> None:
    folder = shared_dir / "formats"
    names = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}

    assert {name for name in names if Path(name).name not in _NOT_TRACES} == set(FORMAT_COUNTS)
    assert {path.name for path in (shared_dir / "traces").glob("*.jsonl")} == set(TRACE_COUNTS)


def test_a_whole_folder_imports_and_can_be_read_back(shared_dir: Path, tmp_path: Path) -> None:
    traces = TraceImport([shared_dir / "formats"])

    count = write_traces(traces, tmp_path / "out.jsonl")

    back = list(read_traces(tmp_path / "out.jsonl"))
    assert count == len(back) == sum(report.traces for report in traces.reports)
    assert len({trace.id for trace in back}) == count


def test_labels_survive_and_move_with_the_cleaned_text(tmp_path: Path) -> None:
    trace = {
        "id": "a",
        "source": "s",
        "messages": [{"role": "user", "content": "\x1b[1mone\0 two\x1b[0m three"}],
        "spans": [
            {"message": 0, "start": 8, "end": 16, "region": "key_decision"},
            {"message": 0, "start": 16, "end": 22, "region": "tool_summary"},
        ],
    }

    imported, report = _import(_write(tmp_path / "a.jsonl", trace))

    content = imported[0].messages[0].content
    assert content == "one two three"
    assert [content[span.start : span.end] for span in imported[0].spans] == [" two", " three"]
    assert _counts(report.repaired) == {"NUL character removed": 1, "ANSI code removed": 2}


def test_own_traces_import_unchanged_however_alike(tmp_path: Path) -> None:
    lines = [_chat("a", id="1", source="s"), _chat("a", "b", id="2", source="s", meta={"x": 1})]

    traces, report = _import(_write(tmp_path / "own.jsonl", *lines))

    assert report.format == "memdecay"
    assert write_traces(traces, tmp_path / "again.jsonl") == 2
    text = (tmp_path / "again.jsonl").read_text(encoding="utf-8")
    written = [json.loads(line) for line in text.splitlines()]
    assert [(line["id"], line["messages"]) for line in written] == [
        (line["id"], line["messages"]) for line in lines
    ]
    assert written[1]["meta"] == {"x": 1}


def test_a_broken_line_costs_that_line_and_is_named(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    first, last = (json.dumps(_chat(text, "b")).encode() for text in ("a", "z"))
    path.write_bytes(
        b"\n".join([first, b"{broken", b"not json at all", b"", b"42", b"\xff\xfe{}", last])
    )

    traces, report = _import(path)

    assert len(traces) == 2
    skipped = {finding.what: finding for finding in report.skipped}
    assert skipped["line that is no JSON"].count == 3
    assert skipped["line that is no JSON"].where == "line 2"
    assert skipped["record without messages"].where == "line 5"


def test_a_cut_json_file_is_read_as_far_as_it_goes(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    text = json.dumps([_chat(str(number), "b") for number in range(5)], indent=1)
    path.write_text(text[: len(text) * 3 // 5], encoding="utf-8")

    traces, report = _import(path)

    assert 2 <= len(traces) < 5
    assert "broken JSON read up to the break" in _counts(report.repaired)


def test_growing_prefixes_merge_across_the_files_of_a_folder(tmp_path: Path) -> None:
    for number in (1, 2, 3):
        _write(tmp_path / f"{number}.jsonl", _chat(*"abc"[:number]))

    importing = TraceImport([tmp_path])
    traces = list(importing)

    assert [len(trace.messages) for trace in traces] == [3]
    assert [report.traces for report in importing.reports] == [0, 0, 1]


def test_trials_of_one_task_share_the_key_by_which_traces_are_split(tmp_path: Path) -> None:
    runs = [{"task_id": 7, "trial": t, "reward": t, "traj": CHAT} for t in (0, 1, 2)]

    traces, _ = _import(_write(tmp_path / "runs.jsonl", *runs))

    assert [trace.task_id for trace in traces] == ["7"] * 3
    assert [dict(trace.extra)["trial"] for trace in traces] == ["0", "1", "2"]
    assert len({trace.id for trace in traces}) == 3


def test_a_benchmark_instance_in_the_file_name_is_the_task(tmp_path: Path) -> None:
    for number in (1, 2):
        (tmp_path / f"{number}").mkdir()
        _write(tmp_path / f"{number}" / "django__django-11138.json", _chat(f"run {number}", "b"))

    traces = list(TraceImport([tmp_path]))

    assert [trace.task_id for trace in traces] == ["django__django-11138"] * 2
    assert len({trace.id for trace in traces}) == 2


@pytest.mark.parametrize("name", ["autogen", "langfuse"])
def test_the_conversations_of_one_session_are_one_task(name: str, tmp_path: Path) -> None:
    sample = [sample for sample in SAMPLES if sample.format == name][-1]
    path = tmp_path / "session"
    path.write_bytes(sample.content)

    traces, _ = _import(path, name)

    assert {trace.task_id for trace in traces} == {"session"}


def test_questions_are_the_task_of_react_runs(tmp_path: Path) -> None:
    run = "Question: Who?{}\nThought 1: a\nAction 1: Search[a]\nObservation 1: b\n\n"
    (tmp_path / "a.txt").write_text(run.format("") + run.format("You have tried before."))

    traces, _ = _import(tmp_path / "a.txt")

    assert [trace.task_id for trace in traces] == ["Who?", "Who?"]


def test_rewards_and_gold_answers_stay_out_of_the_messages(tmp_path: Path) -> None:
    run = {"task_id": 1, "reward": 0.123, "info": {"gold": "SECRET"}}
    traj = [
        *CHAT,
        {"role": "user", "content": "Bye ###STOP###"},
        {"role": "user", "content": "###STOP###"},
    ]

    traces, report = _import(_write(tmp_path / "runs.jsonl", run | {"traj": traj}))

    texts = " ".join(message.content for message in traces[0].messages)
    assert "SECRET" not in texts
    assert "###" not in texts
    assert traces[0].messages[-1].content == "Bye"
    assert dict(traces[0].extra)["meta"] == {"reward": 0.123, "info": {"gold": "SECRET"}}
    assert _counts(report.skipped) == {"user message of a stop mark only": 1}
    assert _counts(report.repaired)["stop mark of the simulated user removed"] == 2


_BYE = ("Hello!", "Hi.", "Bye ###STOP###", "###TRANSFER###")


@pytest.mark.parametrize(
    "chat",
    [
        _chat(*_BYE[:3], _BYE[2]),
        _chat(*_BYE[:3], "Bye.", _BYE[3]),
        _chat(*_BYE[:3], id="a", source="s"),
        {"conversations": [{"from": "human", "value": text} for text in _BYE]},
        {"sessionId": "s", "messages": [{"type": "user", "content": text} for text in _BYE]},
    ],
)
def test_stop_marks_are_taken_out_of_any_format(chat: dict[str, Any], tmp_path: Path) -> None:
    traces, report = _import(_write(tmp_path / "a.jsonl", chat))

    users = [m.content for trace in traces for m in trace.messages if m.role == "user"]
    assert "Bye" in users
    assert not any("###" in text for text in users)
    assert _counts(report.repaired)["stop mark of the simulated user removed"] >= 1


def test_verdicts_inside_the_text_stay_and_are_noticed(tmp_path: Path) -> None:
    texts = ("The reward is: honour", "b", "Observation: Episode finished, reward = 1", "reward: 1")
    chat = _chat(*texts, "Correct answer: Paris\n\nGold answer: Rome")

    traces, report = _import(_write(tmp_path / "a.jsonl", chat))

    assert [message.content for message in traces[0].messages[:4]] == list(texts)
    assert _counts(report.noticed) == {"reward or right answer inside the text kept": 3}


def test_stop_marks_stay_in_labelled_text_and_are_noticed(tmp_path: Path) -> None:
    chat = _chat("Bye ###STOP###", id="a", source="s")
    span = {"message": 0, "start": 0, "end": 14, "region": "recent_dialogue"}

    traces, report = _import(_write(tmp_path / "a.jsonl", {**chat, "spans": [span]}))

    assert traces[0].messages[0].content == "Bye ###STOP###"
    assert _counts(report.noticed) == {"stop mark in a labelled text kept": 1}


def test_hostile_text_is_cleaned_everywhere(tmp_path: Path) -> None:
    hostile = "\x1b[31m\0\ud800"
    call = {"id": "c", "name": f"f{hostile}", "arguments": {f"k{hostile}": hostile}}
    chat = {
        "messages": [
            {"role": f"user{hostile}", "content": f"中文{hostile}", "name": hostile},
            {"role": "assistant", "content": None, "tool_calls": [call]},
        ],
        "tools": [{"name": hostile}],
        f"note{hostile}": [hostile],
    }

    traces, report = _import(_write(tmp_path / "a.jsonl", chat))
    write_traces(traces, tmp_path / "out.jsonl")

    written = (tmp_path / "out.jsonl").read_text(encoding="utf-8")
    assert "中文\ufffd" in written
    assert not any(mark in written for mark in ("\0", "\\u0000", "\x1b", "\\u001b", "\\ud800"))
    assert {"NUL character removed", "ANSI code removed", "lone surrogate replaced"} <= set(
        _counts(report.repaired)
    )


def test_what_is_empty_or_equal_once_cleaned_is_mended(tmp_path: Path) -> None:
    messages = [{"role": "\0", "content": "a"}, {"role": "user", "content": "b"}]
    lines = [{"id": name, "messages": messages} for name in ("x", "x\0", "\0")]

    traces, report = _import(_write(tmp_path / "a.jsonl", *lines), "memdecay")

    assert [trace.id for trace in traces] == ["x", "x:1", "a.jsonl:2"]
    assert {trace.messages[0].role for trace in traces} == {"user"}
    assert _counts(report.repaired)["message without a role"] == 3
    write_traces(traces, tmp_path / "out.jsonl")
    assert list(read_traces(tmp_path / "out.jsonl")) == traces


def test_one_huge_message_is_recognised_and_kept(tmp_path: Path) -> None:
    lines = [_chat("x" * 800_000, "short"), _chat("other")]
    path = tmp_path / "a.jsonl"
    path.write_text("\n".join([json.dumps(lines[0]), "{broken", json.dumps(lines[1])]))

    traces, report = _import(path)

    assert report.format == "openai-chat"
    assert [trace.num_characters for trace in traces] == [800_005, 5]
    assert _counts(report.skipped) == {"line that is no JSON": 1}


def test_the_same_tool_output_twice_stays(tmp_path: Path) -> None:
    messages = [*CHAT[:2], {"role": "tool", "content": "ok"}, {"role": "tool", "content": "ok"}]

    traces, _ = _import(_write(tmp_path / "a.jsonl", {"messages": messages}))

    assert [message.content for message in traces[0].messages[-2:]] == ["ok", "ok"]


def test_json_lines_stream_in_constant_memory(tmp_path: Path) -> None:
    peaks = []
    for num_lines in (800, 1_600):
        path = tmp_path / f"{num_lines}.jsonl"
        with path.open("w") as stream:
            for number in range(num_lines):
                stream.write(json.dumps(_chat(f"{number} {'x' * 4_000}", "y" * 2_000)) + "\n")
        count, peak = count_and_peak(TraceImport([path]))
        assert count == num_lines
        peaks.append(peak)

    # A window of conversations is held back to find longer versions of them.
    assert peaks[1] < 1.1 * peaks[0]


def test_nothing_is_held_of_the_traces_that_went_by(tmp_path: Path) -> None:
    chats = [_chat("a", id=str(number)) for number in range(4_500)]
    path = _write(tmp_path / "a.jsonl", *chats)

    held = held_after(TraceImport([path], "memdecay"), (500, 4_499))

    assert held[1] < held[0] + 100_000


def test_compressed_files_and_other_encodings_are_read(tmp_path: Path) -> None:
    text = json.dumps(_chat("größe"), ensure_ascii=False)
    (tmp_path / "a.jsonl.gz").write_bytes(gzip.compress(f"{text}\n{text}x\n".encode()))
    (tmp_path / "b.json").write_bytes(b"\xef\xbb\xbf" + text.replace("größe", "b").encode())
    (tmp_path / "c.json").write_bytes(text.replace("größe", "c").encode("utf-16"))

    traces = list(TraceImport([tmp_path]))

    assert [trace.messages[0].content for trace in traces] == ["größe", "b", "c"]


def test_a_broken_archive_is_reported(tmp_path: Path) -> None:
    (tmp_path / "a.eval").write_bytes(b"PK\x03\x04 and then nonsense")

    traces, report = _import(tmp_path / "a.eval")

    assert traces == []
    assert "archive that cannot be read" in report.skipped[0].what


def test_unknown_files_in_a_folder_are_reported_and_hidden_ones_passed_over(tmp_path: Path) -> None:
    _write(tmp_path / "a.jsonl", _chat("a"))
    (tmp_path / "notes.txt").write_text("Nothing of interest.")
    (tmp_path / "empty.json").write_text("")
    (tmp_path / ".hidden.jsonl").write_text("{}")
    out = _write(tmp_path / "out.jsonl", _chat("old"))

    importing = TraceImport([tmp_path], leave_out=[out])
    list(importing)

    skipped = {Path(r.path).name: list(_counts(r.skipped)) for r in importing.reports}
    assert skipped == {
        "a.jsonl": [],
        "empty.json": ["empty file"],
        "notes.txt": ["file of no known format"],
    }


def test_files_of_one_name_give_ids_that_differ(tmp_path: Path) -> None:
    paths = []
    for folder in ("x", "y"):
        (tmp_path / folder).mkdir()
        paths.append(
            _write(tmp_path / folder / "a.jsonl", _chat(folder, id="same"), _chat(f"{folder}2"))
        )

    ids = [trace.id for trace in TraceImport(paths)]

    assert len(set(ids)) == 4
    assert ids[0] == "same"


def test_a_forced_format_is_used(tmp_path: Path) -> None:
    _, report = _import(_write(tmp_path / "a.jsonl", _chat("a")), "anthropic")

    assert report.format == "anthropic"


def test_an_unknown_format_name_raises(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match=r"no format is called 'word'; choose one of: aider, "):
        TraceImport([tmp_path], "word")


def test_a_missing_path_raises(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match=r"does not exist; check the path"):
        TraceImport([tmp_path / "none"])


def test_nothing_but_unknown_files_raises(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("hello")

    with pytest.raises(TraceError, match=r"no traces found: .*a\.txt: file of no known format"):
        list(TraceImport([tmp_path / "a.txt"]))


def test_a_known_format_without_a_trace_raises(tmp_path: Path) -> None:
    path = _write(tmp_path / "a.jsonl", {"messages": []})

    with pytest.raises(TraceError, match=r"a\.jsonl was read as openai-chat: .*; check the file"):
        list(TraceImport([path], "openai-chat"))


def test_a_report_becomes_json(tmp_path: Path) -> None:
    path = _write(tmp_path / "a.jsonl", _chat("\0"))

    _, report = _import(path)

    assert json.loads(json.dumps(report.to_dict())) == {
        "path": str(path),
        "format": "openai-chat",
        "traces": 1,
        "messages": 1,
        "repaired": [{"what": "NUL character removed", "count": 1, "where": ""}],
        "skipped": [],
        "noticed": [],
    }


def test_a_folder_without_files_raises(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="the folder holds no files"):
        list(TraceImport([tmp_path]))


def test_a_pipe_is_refused_instead_of_read_in_halves(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(TraceError, match="is no file and no folder"):
        TraceImport([tmp_path / "pipe"])
