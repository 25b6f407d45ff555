from __future__ import annotations

from typing import Any

import pytest

from memdecay.data.formats.chat import read_messages
from memdecay.data.formats.report import Notes

_CALL = {"role": "assistant", "tool_calls": [{"id": "c", "name": "find", "arguments": {}}]}


@pytest.mark.parametrize(
    "result",
    [
        {"role": "tool", "tool_call_id": "c", "content": "r"},
        {"role": "user", "tool_call_id": "c", "content": "r"},
        {"role": "function", "name": "find", "content": "r"},
        {"role": "observation", "content": "r"},
        {"role": "find", "content": "r"},
        {"role": "toolResult", "toolCallId": "c", "content": [{"type": "text", "text": "r"}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c", "content": "r"}]},
        {"role": "user", "parts": [{"type": "tool_call_response", "id": "c", "response": "r"}]},
        {
            "role": "user",
            "parts": [{"functionResponse": {"name": "find", "response": {"output": "r"}}}],
        },
        {"type": "function_call_output", "call_id": "c", "output": "r"},
        {"id": ["lc", "ToolMessage"], "kwargs": {"tool_call_id": "c", "content": "r"}},
    ],
)
def test_tool_results_under_any_role_become_tool_messages(result: dict[str, Any]) -> None:
    messages = read_messages([_CALL, result], Notes())

    assert [(message.role, message.content) for message in messages[1:]] == [("tool", "r")]


@pytest.mark.parametrize(
    ("role", "expected"),
    [
        ("developer", "system"),
        ("human", "user"),
        ("gpt", "assistant"),
        ("AI", "assistant"),
        ("Critic", "Critic"),
    ],
)
def test_roles_get_their_usual_names_and_free_ones_stay(role: str, expected: str) -> None:
    assert read_messages([{"role": role, "content": "x"}], Notes())[0].role == expected


def test_strict_orders_are_not_enforced() -> None:
    roles = ["assistant", *["assistant"] * 12, "tool", "user", "tool"]

    messages = read_messages([{"role": role, "content": "same"} for role in roles], Notes())

    assert [message.role for message in messages] == roles


def test_reasoning_of_any_spelling_stands_beside_the_content() -> None:
    raws = [
        {"role": "assistant", "content": "a", "reasoning_content": "why"},
        {"role": "assistant", "content": [{"type": "thinking", "thinking": "why"}]},
        {"type": "reasoning", "summary": [{"text": "why"}]},
        {"role": "assistant", "content": "b"},
    ]

    messages = read_messages(raws, Notes())

    assert [dict(message.extra)["reasoning_content"] for message in messages] == ["why"] * 3


def test_what_is_no_message_is_skipped_and_a_missing_role_is_repaired() -> None:
    notes = Notes()

    messages = read_messages(["text", None, {"content": "x"}], notes, "line 4")

    assert [message.role for message in messages] == ["user"]
    assert notes.skipped["message that is no object"].count == 2
    assert notes.repaired["message without a role"].where == "line 4"


def test_an_error_stands_for_missing_content() -> None:
    raw = {"role": "tool", "content": "", "error": {"type": "timeout", "message": "too slow"}}

    message = read_messages([raw], Notes())[0]

    assert message.content == "too slow"
    assert dict(message.extra) == {"is_error": True, "error_type": "timeout"}


@pytest.mark.parametrize(
    ("error", "content"),
    [
        ({"type": "limit", "message": "too long"}, "Error: too long\nthe start"),
        ("too long", "Error: too long\nthe start"),
        ({"code": -32000}, 'Error: {"code": -32000}\nthe start'),
        ("the start", "the start"),
        (None, "the start"),
        ({}, "the start"),
    ],
)
def test_an_error_beside_the_result_of_a_tool_is_kept(error: object, content: str) -> None:
    raw = {"role": "tool", "content": "the start", "error": error}
    block = {"type": "tool_result", "content": "the start", "error": error}
    item = {"type": "mcp_call", "name": "f", "id": "c", "output": "the start", "error": error}
    messages = read_messages([raw, {"role": "user", "content": [block]}, item], Notes())

    results = [message for message in messages if message.role == "tool"]
    assert [message.content for message in results] == [content] * 3
    assert [dict(m.extra).get("is_error", False) for m in results] == [bool(error)] * 3


def test_a_call_that_only_failed_keeps_its_error() -> None:
    item = {"type": "mcp_call", "name": "f", "arguments": "{}", "id": "c", "error": "no server"}

    call, result = read_messages([item], Notes())

    assert call.tool_calls
    assert (result.content, dict(result.extra)["is_error"]) == ("no server", True)


def test_results_of_calls_that_run_at_the_vendor_are_kept() -> None:
    items = [
        {"type": "code_interpreter_call", "code": "1", "outputs": [{"type": "logs", "logs": "7"}]},
        {"type": "file_search_call", "queries": ["q"], "results": [{"file_id": "f", "text": "x"}]},
    ]

    messages = read_messages(items, Notes())

    assert [message.role for message in messages] == ["assistant", "tool"] * 2
    assert "7" in messages[1].content
    assert "x" in messages[3].content


def test_an_error_of_an_assistant_is_noted_not_read() -> None:
    notes = Notes()
    raw = {"role": "assistant", "content": "Hello", "error": {"message": "rate limit"}}

    assert read_messages([raw], notes)[0].content == "Hello"
    assert notes.skipped["error beside the text of a message that is no tool's"].count == 1
