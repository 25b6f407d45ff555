"""Formats in which a file is one session of many records."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from memdecay.data.formats.react import parse_react
from memdecay.data.importing import TraceImport
from memdecay.data.trace import Trace
from tests.data.formats.samples import SAMPLES


def _import(tmp_path: Path, *records: dict[str, Any]) -> list[Trace]:
    path = tmp_path / "session.jsonl"
    path.write_text("".join(f"{json.dumps(record)}\n" for record in records), encoding="utf-8")
    return list(TraceImport([path]))


def _sample(name: str, tmp_path: Path) -> list[Trace]:
    path = tmp_path / name
    path.write_bytes(next(sample.content for sample in SAMPLES if sample.name == name))
    return list(TraceImport([path]))


def _turn(kind: str, uuid: str, parent: str | None, text: str, **more: Any) -> dict[str, Any]:
    message = {"role": kind, "content": text} | more.pop("message", {})
    record = {"type": kind, "uuid": uuid, "parentUuid": parent, "sessionId": "s"}
    return record | {"message": message} | more


def _texts(trace: Trace) -> list[str]:
    return [message.content for message in trace.messages]


def test_an_abandoned_branch_becomes_a_trace_of_the_same_task(tmp_path: Path) -> None:
    traces = _import(
        tmp_path,
        _turn("user", "1", None, "start"),
        _turn("assistant", "2", "1", "ready"),
        _turn("user", "3", "2", "go left"),
        _turn("assistant", "4", "3", "left"),
        _turn("user", "5", "2", "go right"),
        _turn("assistant", "6", "5", "right"),
    )

    assert [_texts(trace) for trace in traces] == [
        ["start", "ready", "go left", "left"],
        ["start", "ready", "go right", "right"],
    ]
    assert {trace.task_id for trace in traces} == {"s"}


def test_sub_agents_become_traces_of_the_same_task(tmp_path: Path) -> None:
    traces = _import(
        tmp_path,
        _turn("user", "1", None, "start"),
        _turn("user", "2", None, "side one", isSidechain=True),
        _turn("assistant", "3", "2", "one done", isSidechain=True),
        _turn("user", "4", None, "side two", isSidechain=True),
        _turn("assistant", "5", "1", "end"),
    )

    assert sorted(_texts(trace) for trace in traces) == [
        ["side one", "one done"],
        ["side two"],
        ["start", "end"],
    ]
    assert {trace.task_id for trace in traces} == {"s"}


def test_the_records_of_one_reply_are_joined(tmp_path: Path) -> None:
    call = [{"type": "tool_use", "id": "t", "name": "Bash", "input": {}}]
    traces = _import(
        tmp_path,
        _turn("user", "1", None, "start"),
        _turn("assistant", "2", "1", "Running.", message={"id": "m"}),
        _turn("assistant", "3", "2", "", message={"id": "m", "content": call}),
    )

    assert _texts(traces[0]) == ["start", "Running."]
    assert len(traces[0].messages[1].tool_calls) == 1


def test_a_second_session_in_a_file_is_a_trace_of_its_own(tmp_path: Path) -> None:
    traces = _import(
        tmp_path,
        _turn("user", "1", None, "one"),
        _turn("user", "2", None, "two", sessionId="other"),
    )

    assert [(_texts(trace), trace.task_id) for trace in traces] == [
        (["one"], "s"),
        (["two"], "other"),
    ]


def test_codex_events_that_repeat_items_are_left_out(tmp_path: Path) -> None:
    assert _texts(_sample("rollout.jsonl", tmp_path)[0]) == [
        "Be brief.",
        "Run it",
        "",
        "ok",
        "Ran.",
    ]


def test_inspect_attachments_go_back_into_the_text(tmp_path: Path) -> None:
    trace = _sample("inspect.json", tmp_path)[0]

    assert trace.messages[0].content == "A long question"
    assert dict(trace.extra)["meta"] == {"target": "gold"}


def test_aiders_quotes_inside_code_stay_the_assistants(tmp_path: Path) -> None:
    texts = _texts(_sample("history.md", tmp_path)[0])

    assert texts[1] == "fix the bug\nplease"
    assert texts[2] == "Sure:\n\n```python\n> quoted in code\n```"


def test_labels_inside_an_observation_stay_part_of_it(tmp_path: Path) -> None:
    trace = _sample("log.txt", tmp_path)[0]

    assert trace.messages[2].content.splitlines()[1:] == [
        "Thought 9: this is the page's own text",
        "Observation 4: so is this",
    ]
    assert dict(trace.extra)["meta"] == {"answer": "Ann"}


def test_an_observation_is_due_only_after_an_action() -> None:
    text = "Question: q\nObservation: not yet\nThought: t\nAction: a\nObservation: o"

    assert [message.role for message in parse_react(text.splitlines())] == [
        "user",
        "assistant",
        "tool",
    ]


def test_toolbench_branches_without_training_messages_are_all_read(tmp_path: Path) -> None:
    traces = _sample("tree.json", tmp_path)

    assert [trace.task_id for trace in traces] == ["Q", "Q"]
    assert traces[0].messages[1].tool_calls[0]["function"]["name"] == "f"


def test_calls_of_intercode_hold_the_action(tmp_path: Path) -> None:
    trace = _sample("intercode.json", tmp_path)[0]

    arguments = trace.messages[1].tool_calls[0]["function"]["arguments"]
    assert json.loads(arguments) == {"input": "execute[ls]"}
    assert dict(trace.extra)["meta"]["rewards"] == [0, 1]


@pytest.mark.parametrize(
    ("metadata", "shown"),
    [
        ({}, "out"),
        ({"exit_code": -1, "prefix": "", "suffix": ""}, "out"),
        (
            {"exit_code": 2, "prefix": "[below]\n", "suffix": "\n[done]", "working_dir": "/w"},
            "[below]\nout\n[done]\n[Current working directory: /w]\n"
            "[Command finished with exit code 2]",
        ),
    ],
)
def test_a_commands_output_is_read_as_openhands_shows_it(
    metadata: dict[str, Any], shown: str, tmp_path: Path
) -> None:
    extras = {"command": "ls", "metadata": metadata}
    run = {"id": 1, "source": "agent", "action": "run", "args": {"command": "ls"}}
    seen = {"source": "agent", "observation": "run", "cause": 1, "content": "out", "extras": extras}

    trace = _import(tmp_path, run, seen)[0]

    assert trace.messages[1].content == shown
