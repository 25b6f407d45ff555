from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from memdecay.data.formats.calls import arguments_text, pair_calls, read_call, tool_call
from memdecay.data.formats.report import Notes
from memdecay.data.trace import Message


def _assistant(*ids: str) -> Message:
    return Message("assistant", "", tuple(tool_call("f", {}, call_id, Notes()) for call_id in ids))


def _result(text: str, call_id: str = "") -> Message:
    return Message("tool", text, (), (("tool_call_id", call_id),) if call_id else ())


def _pairs(messages: tuple[Message, ...]) -> list[tuple[list[str], str]]:
    ids = [[call["id"] for call in message.tool_calls] for message in messages]
    answers = [dict(message.extra).get("tool_call_id", "") for message in messages]
    return list(zip(ids, answers, strict=True))


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"a": 1}, {"a": 1}),
        ('{"a": 1}', {"a": 1}),
        ("{'a': True, 'b': None}", {"a": True, "b": None}),
        (None, {}),
        ("  ", {}),
        ([1, "x"], [1, "x"]),
    ],
)
def test_arguments_of_any_spelling_become_json(arguments: object, expected: object) -> None:
    assert json.loads(arguments_text(arguments, Notes())) == expected


@pytest.mark.parametrize("arguments", ['{"a": 1', "{'a': open('x')}", "ls -l", r"{'\d': "])
def test_arguments_that_are_no_json_stay_and_are_noticed(arguments: str) -> None:
    notes = Notes()

    assert arguments_text(arguments, notes) == arguments
    assert list(notes.noticed) == ["arguments that are no JSON kept as text"]


@pytest.mark.parametrize(
    "raw",
    [
        {"id": "c", "type": "function", "function": {"name": "go", "arguments": '{"u": 1}'}},
        {"id": "c", "name": "go", "arguments": {"u": 1}, "requestor": "assistant"},
        {"type": "tool_use", "id": "c", "name": "go", "input": {"u": 1}},
        {"type": "tool-call", "toolCallId": "c", "toolName": "go", "args": {"u": 1}},
        {"id": "c", "function": "go", "arguments": {"u": 1}},
        {"tool_call_id": "c", "function_name": "go", "arguments": {"u": 1}},
        {"tool_call": {"id": "c", "function": {"name": "go", "arguments": '{"u": 1}'}}},
    ],
)
def test_calls_of_any_spelling_become_openai_calls(raw: dict[str, Any]) -> None:
    call = read_call(raw, Notes())

    assert call is not None
    assert (call["id"], call["function"]["name"]) == ("c", "go")
    assert json.loads(call["function"]["arguments"]) == {"u": 1}


def test_a_call_that_is_no_object_is_skipped_and_noted() -> None:
    notes = Notes()

    assert read_call("go()", notes) is None
    assert notes.skipped["tool call that is no object"].count == 1


def test_missing_ids_pair_by_position() -> None:
    messages = [_assistant("", ""), _result("one"), _result("two")]

    paired = _pairs(pair_calls(messages, Notes()))

    assert paired[0][0] == [paired[1][1], paired[2][1]]


def test_repeated_ids_pair_by_position_and_become_unique() -> None:
    messages = [_assistant("x"), _result("1", "x"), _assistant("x"), _result("2", "x")]
    notes = Notes()

    paired = _pairs(pair_calls(messages, notes))

    assert paired[0][0] == [paired[1][1]]
    assert paired[2][0] == [paired[3][1]]
    assert paired[0][0] != paired[2][0]
    assert notes.repaired["repeated call id made unique"].count == 1


def test_a_repeated_id_answers_the_latest_turn_when_an_earlier_call_stayed_open() -> None:
    paired = _pairs(pair_calls([_assistant("x"), _assistant("x"), _result("2", "x")], Notes()))

    assert paired[1][0] == [paired[2][1]]


def test_unanswered_calls_and_stray_results_stay_and_are_noticed() -> None:
    notes = Notes()

    paired = _pairs(pair_calls([_result("?", "gone"), _assistant("a")], notes))

    assert paired == [([], "gone"), (["a"], "")]
    assert set(notes.noticed) == {"tool result without a call", "tool call without a result"}


_MESSAGES = st.lists(
    st.one_of(
        st.lists(st.sampled_from(["", "a", "b", "a_2"]), min_size=1, max_size=3).map(
            lambda ids: _assistant(*ids)
        ),
        st.sampled_from(["", "a", "b", "zzz"]).map(lambda call_id: _result("r", call_id)),
    ),
    max_size=12,
)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(_MESSAGES)
def test_pairing_gives_unique_ids_and_is_stable(messages: list[Message]) -> None:
    once = pair_calls(messages, Notes())

    ids = [call["id"] for message in once for call in message.tool_calls]
    assert len(set(ids)) == len(ids)
    assert all(ids)
    again = pair_calls(once, Notes())
    assert [m.tool_calls for m in again] == [m.tool_calls for m in once]
