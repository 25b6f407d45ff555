"""Words that few files have in these places: each is kept, or counted as left out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from memdecay.data.formats.chat import read_messages
from memdecay.data.formats.report import ImportReport, Notes
from memdecay.data.importing import TraceImport
from memdecay.data.schema import trace_to_data

_USER = {"role": "user", "content": "Hello there"}


def _import(value: object, folder: Path) -> tuple[list[dict[str, Any]], ImportReport]:
    path = folder / "file.json"
    path.write_text(json.dumps(value, indent=1), encoding="utf-8")
    traces = TraceImport([path])
    return [dict(trace_to_data(trace)) for trace in traces], traces.reports[0]


def _assistant(**fields: Any) -> dict[str, Any]:
    return {"role": "assistant", **fields}


def _result(kind: str, content: Any) -> dict[str, Any]:
    return _assistant(content=[{"type": kind, "tool_use_id": "s", "content": content}])


@pytest.mark.parametrize(
    "message",
    [
        _assistant(content=None, refusal="WORDS"),
        _assistant(content="x", refusal="WORDS"),
        _assistant(content=None, audio={"transcript": "WORDS", "data": "AAA="}),
        {"role": "user", "content": [{"type": "input_audio", "transcript": "WORDS"}]},
        _result(
            "code_execution_tool_result",
            {"type": "code_execution_result", "stdout": "WORDS", "return_code": 0, "content": []},
        ),
        {"role": "tool", "tool_call_id": "s", "content": "", "output": "WORDS"},
        {"type": "shell_call", "call_id": "s", "action": {"commands": ["WORDS"]}},
        {"type": "shell_call_output", "call_id": "s", "output": [{"stdout": "WORDS"}]},
        {"type": "apply_patch_call", "call_id": "s", "operation": {"diff": "WORDS"}},
        {"object": "response", "output": [{"role": "assistant", "content": "WORDS"}]},
        {"role": "model", "parts": [{"text": "WORDS", "thoughtSignature": "x"}]},
    ],
)
def test_words_in_rare_places_are_read(message: dict[str, Any]) -> None:
    notes = Notes()

    messages = read_messages([_USER, message], notes)

    assert "WORDS" in str(messages)
    assert not notes.skipped


@pytest.mark.parametrize(
    "fields",
    [
        {"reasoning_content": [{"type": "text", "text": "WORDS"}]},
        {"thinking": "WORDS"},
        {"thinking_blocks": [{"type": "thinking", "thinking": "WORDS", "signature": "x"}]},
        {"reasoning_details": [{"type": "reasoning.text", "text": "WORDS"}]},
        {"additional_kwargs": {"reasoning_content": "WORDS"}},
        {
            "content": [
                {"type": "reasoning", "summary": [{"type": "summary_text", "text": "WORDS"}]}
            ]
        },
        {
            "content": [
                {"type": "reasoning", "reasoning": "x", "redacted": True, "summary": "WORDS"}
            ]
        },
    ],
)
def test_reasoning_is_read_wherever_it_stands(fields: dict[str, Any]) -> None:
    message = read_messages([_assistant(**{"content": "x"} | fields)], Notes())[0]

    assert dict(message.extra)["reasoning_content"] == "WORDS"


@pytest.mark.parametrize(
    ("fields", "arguments"),
    [
        ({"tool_calls": [{"type": "custom", "custom": {"name": "f", "input": "WORDS"}}]}, "WORDS"),
        ({"tool_calls": {"name": "f", "arguments": '{"a": 1}'}}, '{"a": 1}'),
        ({"tool_calls": [{"name": "f", "arguments": None, "input": {"a": 1}}]}, '{"a": 1}'),
        ({"tool_calls": [{"name": "f", "command": "ls"}]}, '{"command": "ls"}'),
        ({"invalid_tool_calls": [{"name": "f", "args": "{WORDS"}]}, "{WORDS"),
        ({"function_call": '{"name": "f", "arguments": "{}"}'}, "{}"),
    ],
)
def test_calls_of_rare_shapes_are_read(fields: dict[str, Any], arguments: str) -> None:
    message = read_messages([_assistant(content="x", **fields)], Notes())[0]

    function = message.tool_calls[0]["function"]
    assert (function["name"], function["arguments"]) == ("f", arguments)


def test_a_call_in_the_content_and_beside_it_is_one() -> None:
    block = {"type": "tool_use", "id": "c", "name": "f", "input": {}}
    calls = [{"id": "c", "name": "f", "args": {}}]

    message = read_messages([_assistant(content=[block], tool_calls=calls)], Notes())[0]

    assert len(message.tool_calls) == 1


@pytest.mark.parametrize(
    ("message", "note"),
    [
        (_assistant(content="x", annotations=[{"title": "WORDS"}]), "annotations of a message"),
        (_assistant(content="x", delta={"content": "WORDS"}), "delta of a message"),
        (_assistant(content="x", tool_calls=5), "tool calls that are no list"),
        (
            _assistant(content=[{"type": "text", "text": "x", "citations": [{"text": "WORDS"}]}]),
            "citations of a text block",
        ),
        (_result("tool_result", "x") | {"images": ["WORDS"]}, "images of a message"),
        ({"type": "mcp_list_tools", "tools": [{"name": "WORDS"}]}, "mcp_list_tools item"),
        ({"type": "item_reference", "id": "WORDS"}, "item_reference item"),
    ],
)
def test_words_that_are_left_out_are_noted(message: dict[str, Any], note: str) -> None:
    notes = Notes()

    messages = read_messages([_USER, message], notes)

    assert "WORDS" not in str(messages)
    assert list(notes.skipped) == [note]


def test_copies_and_metadata_are_no_news() -> None:
    notes = Notes()
    fields = {"thought": "Hello", "timestamp": "today", "usage": {"model": "m"}, "n": 3, "x": [{}]}

    read_messages([_assistant(content="Hello you", **fields)], notes)

    assert not notes.skipped


def _run(inputs: Any, outputs: Any) -> dict[str, Any]:
    return {"id": "1", "trace_id": "t", "run_type": "llm", "inputs": inputs, "outputs": outputs}


def _span(attributes: Any, *events: Any) -> dict[str, Any]:
    return {"traceId": "t", "name": "chat", "attributes": attributes, "events": list(events)}


def _event(**fields: Any) -> dict[str, Any]:
    return {"id": 1, "source": "agent", "message": "", **fields}


def _reply(message: dict[str, Any]) -> dict[str, Any]:
    return {"tool_call_id": "c", "model_response": {"id": "g", "choices": [{"message": message}]}}


_HEAD = {"type": "session_meta", "payload": {"id": "i", "base_instructions": "WORDS"}}
_ITEM = {"type": "response_item", "payload": {"type": "message", **_USER}}
_PARTS = [{"role": "user", "parts": [{"type": "text", "content": "Hello there"}]}]
_AUTOGEN_USER = {"type": "UserMessage", "content": "Hello there", "source": "user"}
_CALLS = [{"id": "c", "name": "f", "arguments": "{}"}]
_PI_HEAD = {"type": "session", "id": "s", "cwd": "/", "parentSession": "a"}
_PI_TURN = {"type": "message", "id": "m", "parentId": "s", "message": {**_USER, "timestamp": 1}}
_RESPONSE_ITEM = {"type": "message", **_USER, "content": [{"text": "Hello there"}]}
_CHOICES = {"choices": [{"message": {"role": "assistant", "content": "Hi"}}]}
_STEP = {"step_id": 1, "source": "user", "message": "Hello there"}
_DETAILS = "gen_ai.client.inference.operation.details"


@pytest.mark.parametrize(
    "value",
    [
        {"systemInstruction": {"parts": [{"text": "WORDS"}]}, "contents": [_USER | {"parts": []}]},
        {"messages": [_USER], "system_prompt": "WORDS"},
        _run({"input": "Hello there", "chat_history": [{"role": "user", "content": "WORDS"}]}, {}),
        _run({"contents": [_USER], "system_instruction": "WORDS"}, {}),
        {
            "instructions": [{"role": "developer", "content": "WORDS"}],
            "input": [{"type": "message", **_USER, "content": [{"text": "Hello there"}]}],
        },
        _span({"gen_ai.system_instructions": "WORDS", "gen_ai.input.messages": _PARTS}),
        _span({}, {"name": "gen_ai.content.prompt", "attributes": {"gen_ai.prompt": "WORDS"}}),
        _span({}, {"name": _DETAILS, "attributes": {"gen_ai.output.messages": '"WORDS"'}}),
        _span(
            {
                "llm.output_messages.0.message.role": "assistant",
                "llm.output_messages.0.message.function_call_name": "WORDS",
            }
        ),
        [_HEAD, _ITEM],
        {"sessionId": "s", "projectHash": "h", "messages": [{"type": "gemini", "content": [
            {"functionCall": {"name": "f", "args": {"a": "WORDS"}}}
        ]}]},
        [_event(observation="recall", extras={"repo_instructions": "WORDS"}, content="Added")],
        [_event(action="condensation", args={"summary": "WORDS"})],
        [_event(action="finish", args={"thought": "Done", "final_thought": "WORDS"})],
        [_event(action="edit", args={"path": "a", "content": "WORDS", "thought": ""})],
        [_event(observation="delegate", content="", extras={"outputs": {"content": "WORDS"}})],
        [_event(action="run", args={}, tool_call_metadata=_reply(
            _assistant(content="x", reasoning_content="WORDS", tool_calls=_CALLS)
        ))],
        [{"mode": "create", "messages": [_AUTOGEN_USER], "response": {
            "content": _CALLS, "thought": "WORDS"
        }}],
        [{"mode": "create", "messages": [_AUTOGEN_USER, {
            "type": "FunctionExecutionResultMessage", "content": "WORDS"
        }], "response": None}],
        {"schema_version": "ATIF-v1.6", "agent": {}, "steps": [_STEP | {"observation": "WORDS"}]},
        {"schema_version": "ATIF-v1.7", "agent": {}, "steps": [_STEP], "subagent_trajectories": [
            {"agent": {}, "steps": [_STEP | {"message": "WORDS"}]}
        ]},
        {"history": [_USER], "mistake_agent": "A", "mistake_step": "1", "system_prompt": "WORDS"},
        {"turn_history": {"thoughts": ["a", "WORDS"], "actions": ["b"], "observations": ["c"]}},
        {"trajectory": [{"action": "ls", "thought": "a", "observation": "b", "query": [
            {"role": "system", "content": "WORDS"}
        ]}]},
    ],
)  # fmt: skip
def test_each_reader_reads_words_in_rare_places(value: object, tmp_path: Path) -> None:
    traces, _ = _import(value, tmp_path)

    assert "WORDS" in str([trace["messages"] for trace in traces])


@pytest.mark.parametrize(
    ("value", "note"),
    [
        (_run({"messages": [_USER]}, {"answer": "WORDS"}), "answer of a model call's output"),
        (_run({"messages": [[_USER], [_USER]]}, {}), "further prompt of a batch"),
        (_run({"messages": [_USER]}, {"generations": [[{"text": "a"}], [{}]]}),
         "further reply of a batch"),
        (_span({"gen_ai.input.messages": _PARTS}, {"name": "gen_ai.choice", "content": "WORDS"}),
         "message event beside message attributes"),
        ({"trace": {"input": "WORDS"}, "observations": [
            {"traceId": "t", "type": "GENERATION", "input": [_USER]}
        ]}, "input or output of the trace beside its model calls"),
        ([_event(**_USER, action="message", args={"content": "a", "image_urls": ["WORDS"]})],
         "image_urls of a message"),
        ([_event(observation="browse", content="a", extras={"axtree_object": {"name": "WORDS"}})],
         "axtree_object of a result"),
        ([{"mode": "create_stream", "messages": [_AUTOGEN_USER], "stream": ["WORDS"]}],
         "stream of a model call"),
        ({"turn_history": {"actions": ["b"], "observations": ["c"]}, "answer": "WORDS"},
         "answer of a run"),
        ({"tasks": ["WORDS"], "simulations": [{"messages": [_USER]}]}, "tasks of a results file"),
        ({"version": 2, "eval": {}, "samples": [{"messages": [_USER], "events": [{}]}]},
         "event of a sample"),
        (_run({"messages": [_USER]}, {}) | {"attachments": {"a": "WORDS"}}, "attachments of a run"),
        (_run({"messages": [_USER]}, {}) | {"extra": {"prompt": "WORDS"}}, "prompt of a run"),
        ({"post": [_run({"messages": [_USER]}, {})], "feedback": [{"comment": "WORDS"}]},
         "feedback of a body of runs"),
        (_span({"gen_ai.input.messages": _PARTS, "gen_ai.tool.call.result": "WORDS"}),
         "gen_ai.tool.call.result of a span"),
        (_span({"gen_ai.input.messages": _PARTS, "app.note.0.text": "WORDS"}),
         "app.note.*.text of a span"),
        (_span({"gen_ai.input.messages": _PARTS}, {"name": "exception", "attributes": {
            "exception.message": "WORDS"
        }}), "exception of a span's events"),
        (_span({"gen_ai.input.messages": _PARTS}) | {"annotations": ["WORDS"]},
         "annotations of a span's record"),
        ({"resourceSpans": [{"scopeSpans": [{"spans": [_span({"gen_ai.input.messages": _PARTS})]}],
                             "comment": "WORDS"}]}, "comment of a span's record"),
        (_span({"llm.input_messages.0.message.role": "user",
                "llm.input_messages.0.message.content": "Hello", "input.value": "WORDS"}),
         "input.value of a span"),
        ([_PI_HEAD | {"comment": "WORDS"}, _PI_TURN], "comment of a session head"),
        ([_PI_HEAD, _PI_TURN | {"label": "WORDS"}], "label of a message record"),
        ([_PI_HEAD, _PI_TURN, {"type": "compaction", "summary": "Hi", "details": ["WORDS"]}],
         "details of a compaction record"),
        ({"observations": [{"traceId": "t", "type": "GENERATION", "input": [_USER],
                            "comments": ["WORDS"]}]}, "comments of a model call"),
        ({"id": "t", "comments": ["WORDS"], "observations": [
            {"traceId": "t", "type": "GENERATION", "input": [_USER]}
        ]}, "comments of a trace"),
        ({"a": {"input": {"success": True, "data": [_USER], "additionalInput": "WORDS"}}},
         "additionalInput of a model call's input"),
        ({"request": {"input": "Hi", "prompt": {"variables": {"a": "WORDS"}}},
          "response": {"output": [_RESPONSE_ITEM]}}, "prompt of a request or response"),
        ({"messages": [_USER], "kwargs": {"prefix": "WORDS"}, "response": _CHOICES},
         "prefix of a model call"),
        ({"messages": [_USER], "args": ["WORDS"], "response": _CHOICES}, "args of a model call"),
        ({"answer_generation": {"train_messages": [[_USER]], "chain": [{"description": "WORDS"}]}},
         "chain of an answer"),
        ({"answer_generation": {"train_messages": [[_USER]]}, "trys": ["WORDS"]},
         "trys of a search"),
        ({"version": 2, "eval": {}, "error": {"message": "WORDS"}, "samples": [
            {"messages": [_USER]}
        ]}, "error of a log"),
        ({"info": {"environment_info": {"rules": "WORDS"}}, "simulations": [
            {"messages": [_USER]}
        ]}, "rules of an environment"),
        ([_HEAD | {"payload": {"id": "i"}}, _ITEM | {"note": "WORDS"}], "note of a record"),
        ([_HEAD | {"payload": {"id": "i"}}, _ITEM, {"type": "compacted", "payload": {
            "message": "Hi", "guide": "WORDS"
        }}], "guide of a compaction"),
        ([{"mode": "create", "messages": [_AUTOGEN_USER], "response": {
            "content": "Hi", "note": "WORDS"
        }}], "note of a reply"),
        ({"schema_version": "ATIF-v1.6", "agent": {"prompt": "WORDS"}, "steps": [_STEP]},
         "prompt of an agent"),
        ([_event(action="run", args={}) | {"note": "WORDS"}], "note of an event"),
        ([_event(action="run", args={}, tool_call_metadata=_reply(
            _assistant(content="x", annotations=["WORDS"], tool_calls=_CALLS)
        ))], "annotations of a reply"),
    ],
)  # fmt: skip
def test_each_reader_notes_words_that_it_leaves_out(
    value: object, note: str, tmp_path: Path
) -> None:
    traces, report = _import(value, tmp_path)

    assert "WORDS" not in str([trace["messages"] for trace in traces])
    assert note in [finding.what for finding in report.skipped]


@pytest.mark.parametrize("key", ["input", "inputs", "example"])
def test_what_stands_beside_an_envelope_stays_a_fact(key: str, tmp_path: Path) -> None:
    record = {"request": {"messages": [_USER]}, key: "WORDS", "functions": ["F"], "tools": ["T"]}

    traces, _ = _import(record, tmp_path)

    assert "WORDS" in str(traces[0]["meta"])
    assert {"T", "F"} <= set(str(traces[0]))


@pytest.mark.parametrize(
    "value",
    [
        _run({"messages": [_USER]}, {}) | {"extra": {"invocation_params": {"tools": ["T"]}}},
        {"observations": [
            {"traceId": "t", "type": "GENERATION", "input": {"messages": [_USER], "tools": ["T"]}}
        ]},
        {"request": {"tools": ["T"], "input": "Hello there"}, "response": {"output": [
            {"type": "message", "role": "assistant", "content": [{"text": "Hello"}]}
        ]}},
        _span({"gen_ai.input.messages": _PARTS, "llm.request.functions.0": "T"}),
        {"info": {"environment_info": {"tool_defs": ["T"]}}, "simulations": [
            {"messages": [_USER]}
        ]},
        [_event(source="agent", action="system", args={"content": "Help", "tools": ["T"]})],
    ],
)  # fmt: skip
def test_tools_are_kept_wherever_they_stand(value: object, tmp_path: Path) -> None:
    traces, _ = _import(value, tmp_path)

    assert [trace["tools"] for trace in traces] == [["T"]]


def test_a_result_beside_its_record_is_noted_unless_it_is_a_copy(tmp_path: Path) -> None:
    block = {"type": "tool_result", "tool_use_id": "t", "content": "Two files"}
    record = {"type": "user", "sessionId": "s", "message": {"role": "user", "content": [block]}}
    copy, more = {"stdout": "Two files"}, {"stdout": "Two files", "original": "WORDS"}

    _, report = _import([record | {"toolUseResult": result} for result in (copy, more)], tmp_path)

    assert [(found.what, found.count) for found in report.skipped] == [
        ("toolUseResult of a record", 1)
    ]


def test_telemetry_and_copies_in_spans_are_no_news(tmp_path: Path) -> None:
    request = {"model": "m", "tool_choice": "auto", "messages": [_USER]}
    attributes = {
        "gen_ai.input.messages": _PARTS,
        "gen_ai.request.model": "m",
        "gen_ai.agent.name": "helper",
        "server.address": "example.org",
        "input.value": json.dumps(request),
        "llm.invocation_parameters": '{"model": "m"}',
    }
    event = {"name": "gen_ai.content.prompt", "attributes": {"gen_ai.prompt": "Hello there"}}
    about = {"kind": "CLIENT", "status": {"code": "OK"}, "resource": {"service.name": "a"}}

    _, report = _import(_span(attributes, event) | about, tmp_path)

    assert not report.skipped


def test_every_envelope_keeps_what_stands_in_it(tmp_path: Path) -> None:
    inner = {"messages": [_USER], "response": "Hi", "mark": "INNER"}
    record = {"data": {"request": inner, "mark2": "MIDDLE", "system": "S"}, "mark3": "OUTER"}

    traces, _ = _import(record, tmp_path)

    assert [message["content"] for message in traces[0]["messages"]] == ["Hello there", "Hi"]
    meta = {"mark": "INNER", "mark2": "MIDDLE", "system": "S", "mark3": "OUTER"}
    assert traces[0]["meta"] == meta


@pytest.mark.parametrize(
    "text",
    [
        '{"messages": [{"role": "user", "content": "WORDS", "content": "Hi"}]}',
        '[{"messages": [{"role": "user", "content": "WORDS", "content": "Hi"}]}]',
        '{\n"messages": [], "messages": [{"role": "user", "content": "Hi", "role": "user"}]}',
    ],
)
def test_the_first_of_two_values_of_a_key_is_noted(text: str, tmp_path: Path) -> None:
    path = tmp_path / "file.json"
    path.write_text(text, encoding="utf-8")
    traces = TraceImport([path])

    contents = [message.content for trace in traces for message in trace.messages]

    assert contents == ["Hi"]
    found = [(finding.what, finding.count) for finding in traces.reports[0].skipped]
    assert found == [("value of a key that comes again in its object", 1)]
