from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memdecay.classifier.messages import chat_message, clean_text, content_text


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (None, ""),
        ("plain", "plain"),
        ([], ""),
        (
            [{"type": "text", "text": "a"}, {"type": "text", "value": "b"}, {"content": "c"}],
            "a\nb\nc",
        ),
        (["a", "b"], "a\nb"),
        ({"text": "inside"}, "inside"),
        ([{"type": "tool_result", "content": [{"type": "text", "text": "deep"}]}], "deep"),
        ([{"type": "image_url", "image_url": {"url": "data:..."}}], "[image_url]"),
        ({"ok": True}, '{"ok": true}'),
        (3, "3"),
        ([{"type": "text", "text": None}], "[text]"),
    ],
)
def test_content_of_any_shape_becomes_text(content: object, text: str) -> None:
    assert content_text(content) == text


@given(st.text(st.characters(), max_size=50))
def test_cleaning_keeps_the_length_and_makes_text_encodable(text: str) -> None:
    cleaned = clean_text(text)
    assert len(cleaned) == len(text)
    cleaned.encode("utf-8")


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda inner: (
            st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
        ),
        max_leaves=8,
    )
)
def test_no_message_shape_is_refused(value: Any) -> None:
    message = chat_message(
        {"role": value, "content": value, "tool_calls": [value, {"function": value}], "name": value}
    )
    assert isinstance(message.content, str)
    message.calls_text.encode("utf-8")


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"a": 1}, {"a": 1}),
        ('{"a": 1}', {"a": 1}),
        ('{"a": 1', '{"a": 1'),
        ("{'a': 1}", "{'a': 1}"),
        ('["a"]', '["a"]'),
        (None, {}),
        ({"a": "\ud800"}, {"a": "\ufffd"}),
        ("", ""),
    ],
)
def test_call_arguments_are_a_mapping_if_they_parse(arguments: object, expected: object) -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": arguments}}
    (read,) = chat_message({"role": "assistant", "tool_calls": [call]}).calls
    assert (read.name, read.arguments, read.id) == ("f", expected, "c1")


@pytest.mark.parametrize(
    "message",
    [
        {"tool_calls": [{"name": "f", "arguments": {"a": 1}}]},
        {"tool_calls": [{"function": "f", "arguments": {"a": 1}}]},
        {"function_call": {"name": "f", "arguments": '{"a": 1}'}},
    ],
)
def test_other_spellings_of_a_call_are_read(message: dict[str, Any]) -> None:
    (read,) = chat_message({"role": "assistant", **message}).calls
    assert (read.name, read.arguments) == ("f", {"a": 1})


def test_calls_text_holds_the_call_as_json() -> None:
    message = chat_message(
        {
            "role": "assistant",
            "tool_calls": [{"function": {"name": "f", "arguments": '{"q": "é"}'}}],
        }
    )
    head, body, tail = message.calls_text.split("\n")
    assert (head, tail) == ("<tool_call>", "</tool_call>")
    assert json.loads(body) == {"name": "f", "arguments": {"q": "é"}}


def test_endless_nesting_ends() -> None:
    nested: Any = "x"
    for _ in range(100_000):
        nested = [nested]
    assert content_text(nested) == "[list nested too deeply]"
