import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memdecay.classifier.messages import ToolCall
from memdecay.serving.api.schemas.chat import Call
from memdecay.serving.api.tool_calls import Said, ToolCallReader, forced_call, read_calls
from tests.serving.api.conftest import HELLO, WEATHER_TOOL

CALL = ToolCall("look", {"where": "here"}).to_text()
FRAGMENTS = st.sampled_from(
    [CALL, "<tool_call>", "</tool_call>", "<tool", "_call>", " ", "\n", "<", "{}", "text", "é"]
)


def summary(said: list[Said]) -> tuple[str, list[str]]:
    calls = [piece.call for piece in said if piece.call]
    return "".join(piece.text for piece in said), [
        call.function.model_dump_json() for call in calls
    ]


@given(st.lists(FRAGMENTS, max_size=8), st.data())
def test_reading_in_pieces_gives_what_reading_at_once_gives(
    fragments: list[str], data: st.DataObject
) -> None:
    text = "".join(fragments)
    cuts = data.draw(st.lists(st.integers(0, len(text)), max_size=6).map(sorted))
    reader = ToolCallReader()
    said = []
    for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True):
        said += reader.feed(text[start:end])
    said += reader.finish()
    whole, calls = read_calls(text)
    assert summary(said) == (whole, [call.function.model_dump_json() for call in calls])


@given(st.text())
def test_text_without_calls_stays_as_it_is(text: str) -> None:
    assert read_calls(text) == (text, ())


@given(
    st.text(min_size=1).filter(lambda name: "</tool_call>" not in name),
    st.dictionaries(st.text(), st.integers() | st.booleans() | st.none()),
)
def test_call_as_the_model_writes_it_is_read(name: str, arguments: dict[str, Any]) -> None:
    written = ToolCall(name, arguments).to_text()
    if written.count("</tool_call>") > 1:
        return
    text, calls = read_calls(f"I look.\n{written}")
    assert text == "I look."
    assert calls[0].function.name == name
    assert json.loads(calls[0].function.arguments) == arguments


def test_text_before_a_call_comes_at_once() -> None:
    reader = ToolCallReader()
    assert reader.feed("Let me see. <tool") == [Said("Let me see.")]
    (said,) = reader.feed(CALL[len("<tool") :])
    assert isinstance(said.call, Call)
    assert reader.finish() == []


@pytest.mark.parametrize(
    "body", ["not json", '{"arguments": {}}', "[1]", '{"name": 3}', '{"name": ""}', "[" * 99999]
)
def test_broken_call_is_text(body: str) -> None:
    text = f"<tool_call>{body}</tool_call>"
    assert read_calls(text) == (text, ())


def test_each_call_has_an_id_of_its_own() -> None:
    _, calls = read_calls(f"{CALL}\n{CALL}")
    assert len({call.id for call in calls}) == 2


def tool(name: str, description: str = "", **parameters: Any) -> dict[str, Any]:
    function = {"name": name, "description": description, "parameters": parameters}
    return {"type": "function", "function": function}


def test_forced_call_fits_the_newest_message() -> None:
    tools = [tool("add", "Add numbers"), WEATHER_TOOL]
    messages = [{"role": "user", "content": "How is the weather?"}]
    assert forced_call(tools, None, messages).name == "get_weather"


def test_tool_that_was_called_already_waits_for_the_others() -> None:
    tools = [WEATHER_TOOL, tool("final_answer", "Give the answer")]
    made = {"id": "c", "type": "function", "function": {"name": "get_weather", "arguments": "{}"}}
    messages = [
        {"role": "user", "content": "How is the weather?"},
        {"role": "assistant", "content": None, "tool_calls": [made]},
        {"role": "tool", "content": "Sunny weather"},
    ]
    assert forced_call(tools, None, messages).name == "final_answer"
    messages.append({"role": "user", "content": "And the weather now?"})
    assert forced_call(tools, None, messages).name == "get_weather"


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"type": "string"}, "Hello"),
        ({"type": "integer"}, 0),
        ({"type": "number", "default": 2.5}, 2.5),
        ({"type": "boolean"}, False),
        ({"type": "string", "enum": ["b", "a"]}, "b"),
        ({"const": 4}, 4),
        ({"type": "array"}, []),
        ({"type": "array", "minItems": 1, "items": {"type": "integer"}}, [0]),
        ({"type": ["null", "string"]}, None),
        ({"anyOf": [{"type": "integer"}, {"type": "string"}]}, 0),
        ({"type": "object", "properties": {"b": {}}, "required": ["b", 3]}, {"b": "Hello"}),
        ({"type": "whatever"}, "Hello"),
        (True, "Hello"),
    ],
)
def test_forced_argument_follows_its_schema(schema: Any, value: Any) -> None:
    tools = [tool("f", type="object", properties={"x": schema, "y": {}}, required=["x"])]
    assert forced_call(tools, "f", HELLO).arguments == {"x": value}


@given(
    st.recursive(
        st.none() | st.booleans() | st.text(),
        lambda inner: (
            st.lists(inner)
            | st.dictionaries(
                st.sampled_from(
                    ["type", "properties", "required", "items", "anyOf", "enum", "minItems", "x"]
                ),
                inner,
            )
        ),
    )
)
def test_senseless_schema_still_gives_a_call(schema: Any) -> None:
    parameters = schema if isinstance(schema, dict) else {"properties": {"x": schema}}
    definition = {"type": "function", "function": {"name": "f", "parameters": parameters}}
    assert json.dumps(forced_call([definition], None, HELLO).arguments)


def test_call_in_a_text_counts_where_results_come_as_users() -> None:
    tools = [WEATHER_TOOL, tool("final_answer", "Give the answer")]
    messages = [
        {"role": "user", "content": "How is the weather?"},
        {"role": "assistant", "content": "Calling tools: get_weather(city='Rome')"},
        {"role": "user", "content": "Observation: the weather is sunny"},
    ]
    assert forced_call(tools, None, messages).name == "final_answer"


def test_unknown_forced_tool_is_refused() -> None:
    with pytest.raises(ValueError, match="names 'fly', but the tools are get_weather"):
        forced_call([WEATHER_TOOL], "fly", HELLO)
