import json
from typing import Any

import pytest
from starlette.testclient import TestClient

from memdecay.serving.api.config import ServerConfig
from memdecay.serving.engine.events import Divergence, Failed
from memdecay.serving.engine.request import ErrorKind, RequestRefusedError
from tests.serving.api.conftest import HELLO, WEATHER_TOOL, chat, client_of
from tests.serving.fake_engine import EVICTED, FakeEngine


def events(text: str) -> list[dict[str, Any]]:
    lines = [line for line in text.split("\n\n") if line.startswith("data: ")]
    assert lines[-1] == "data: [DONE]"
    return [json.loads(line.removeprefix("data: ")) for line in lines[:-1]]


def test_answer_has_the_shape_of_openais(client: TestClient) -> None:
    data = chat(client, temperature=0).json()
    assert data["object"] == "chat.completion"
    choice = data["choices"][0]
    message = {
        "role": "assistant",
        "content": "Hello there, friend.",
        "refusal": None,
        "annotations": [],
    }
    assert choice["message"] == message
    assert choice["finish_reason"] == "stop"
    assert data["usage"] == {
        "prompt_tokens": 5,
        "completion_tokens": 4,
        "total_tokens": 9,
        "prompt_tokens_details": {"cached_tokens": 2},
    }


def test_evictions_are_told_in_body_and_headers(client: TestClient) -> None:
    response = chat(client, session_id="s1", surprise=1)
    memory = response.json()["memdecay"]
    assert memory["newly_evicted_per_region"] == EVICTED
    assert memory["notes"] == ["read anew"]
    assert memory["ignored_fields"] == ["surprise"]
    assert response.headers["x-memdecay-session"] == "s1"
    assert response.headers["x-memdecay-evicted"] == "60"
    assert response.headers["x-memdecay-tokens-kept"] == "40"
    assert memory["kept_per_precision"] == {"full": 25, "4": 15}
    assert response.headers["x-memdecay-tokens-faded"] == "15"


def test_divergence_is_told(engine: FakeEngine) -> None:
    engine.divergence = Divergence(17, is_read_again=False, reason="reasoning was stripped")
    response = chat(client_of(engine))
    assert response.json()["memdecay"]["divergence"]["token_index"] == 17
    assert response.headers["x-memdecay-diverged-at"] == "17"


def test_settings_reach_the_engine(client: TestClient, engine: FakeEngine) -> None:
    chat(
        client,
        temperature=0.5,
        top_p=0.9,
        seed=7,
        stop=["END"],
        max_tokens=9,
        pins=[0],
        cache_salt="salt",
        prompt_cache_key="key",
    )
    request = engine.requests[0]
    assert (request.sampling.temperature, request.sampling.top_p) == (0.5, 0.9)
    assert request.sampling.seed == 7
    assert request.stop == ("END",)
    assert request.max_tokens == 9
    assert request.pins == (0,)
    assert (request.cache_salt, request.prompt_cache_key) == ("salt", "key")


def test_newer_name_of_the_limit_wins(client: TestClient, engine: FakeEngine) -> None:
    data = chat(client, max_tokens=9, max_completion_tokens=2).json()
    assert engine.requests[0].max_tokens == 2
    assert data["choices"][0]["finish_reason"] == "length"


def test_session_may_be_named_by_a_header(client: TestClient, engine: FakeEngine) -> None:
    client.post(
        "/v1/chat/completions",
        json={"model": "fake", "messages": HELLO},
        headers={"X-Session-Id": "from-header"},
    )
    assert engine.requests[0].session_id == "from-header"


def test_content_may_be_null_or_a_list(client: TestClient, engine: FakeEngine) -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    messages = [
        {"role": "developer", "content": "Be brief"},
        {"role": "user", "content": [{"type": "text", "text": "Hello"}]},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": "42"},
    ]
    assert chat(client, messages=messages).status_code == 200
    system, user, assistant, tool = engine.requests[0].messages
    assert system["role"] == "system"
    assert user["content"] == [{"type": "text", "text": "Hello"}]
    assert assistant["content"] is None
    assert assistant["tool_calls"] == [call]
    assert tool["tool_call_id"] == "c1"


def test_stream_brings_the_answer_in_pieces(client: TestClient) -> None:
    response = chat(client, stream=True)
    assert response.headers["content-type"].startswith("text/event-stream")
    chunks = events(response.text)
    deltas = [chunk["choices"][0]["delta"] for chunk in chunks]
    assert deltas[0] == {"role": "assistant", "content": ""}
    assert "".join(delta.get("content", "") for delta in deltas) == "Hello there, friend."
    assert chunks[-1]["choices"][0]["finish_reason"] == "stop"
    assert chunks[-1]["memdecay"]["newly_evicted_per_region"] == EVICTED
    assert all("usage" not in chunk for chunk in chunks)


def test_stream_ends_with_usage_where_asked_for(client: TestClient) -> None:
    chunks = events(chat(client, stream=True, stream_options={"include_usage": True}).text)
    assert chunks[-1]["choices"] == []
    assert chunks[-1]["usage"]["prompt_tokens_details"] == {"cached_tokens": 2}
    # As OpenAI has it: the others bear the field without figures.
    assert [chunk["usage"] for chunk in chunks[:-1]] == [None] * (len(chunks) - 1)


def test_forced_function_is_called_with_arguments_of_its_schema(client: TestClient) -> None:
    choice = {"type": "function", "function": {"name": "get_weather"}}
    data = chat(client, tools=[WEATHER_TOOL], tool_choice=choice).json()["choices"][0]
    assert data["finish_reason"] == "tool_calls"
    assert data["message"]["content"] is None
    (call,) = data["message"]["tool_calls"]
    assert call["function"]["name"] == "get_weather"
    assert json.loads(call["function"]["arguments"]) == {"city": "Hello", "unit": "celsius"}


def test_call_in_a_stream_comes_as_a_delta(client: TestClient) -> None:
    chunks = events(chat(client, stream=True, tools=[WEATHER_TOOL], tool_choice="required").text)
    calls = [chunk["choices"][0]["delta"].get("tool_calls") for chunk in chunks]
    (call,) = [call for call in calls if call]
    assert call[0]["index"] == 0
    assert call[0]["function"]["name"] == "get_weather"
    assert chunks[-1]["choices"][0]["finish_reason"] == "tool_calls"


def test_stop_text_in_a_forced_call_does_not_cut_it(client: TestClient, engine: FakeEngine) -> None:
    messages = [{"role": "user", "content": "Observation: it is sunny"}]
    data = chat(
        client,
        messages=messages,
        tools=[WEATHER_TOOL],
        tool_choice="required",
        stop=["Observation:"],
    ).json()
    (call,) = data["choices"][0]["message"]["tool_calls"]
    assert json.loads(call["function"]["arguments"])["city"] == "Observation: it is sunny"
    chat(client, messages=messages, tools=[WEATHER_TOOL], stop=["Observation:"])
    assert engine.requests[-1].stop == ("Observation:",)


def test_tools_are_shown_unless_none_may_be_called(client: TestClient, engine: FakeEngine) -> None:
    chat(client, tools=[WEATHER_TOOL])
    chat(client, tools=[WEATHER_TOOL], tool_choice="none")
    assert engine.requests[0].tools[0]["function"]["name"] == "get_weather"
    assert engine.requests[1].tools == ()


def test_text_that_looks_like_a_call_is_text_without_tools(engine: FakeEngine) -> None:
    engine.answer = '<tool_call>{"name": "f", "arguments": {}}</tool_call>'
    message = chat(client_of(engine)).json()["choices"][0]["message"]
    assert message["content"] == engine.answer
    assert "tool_calls" not in message


def test_output_may_be_scripted(client: TestClient) -> None:
    data = chat(client, forced_output="As recorded.").json()
    assert data["choices"][0]["message"]["content"] == "As recorded."


def test_long_tool_results_are_compressed_where_asked_for(engine: FakeEngine) -> None:
    client = client_of(engine, ServerConfig(compress_tools=200))
    result = "The listing goes on and on with words that tell nobody anything at all.\n" * 40
    messages = [*HELLO, {"role": "tool", "content": result}, {"role": "user", "content": result}]
    response = chat(client, messages=messages)
    (cut,) = response.json()["memdecay"]["compressed_tools"]
    assert cut["message"] == 1
    assert cut["characters"] == len(result)
    seen = engine.requests[0].messages
    assert len(seen[1]["content"]) == cut["kept_characters"] < 600
    assert seen[2]["content"] == result
    assert int(response.headers["x-memdecay-compressed-characters"]) > 2000
    assert cut["text"] == seen[1]["content"]


def test_results_in_parts_are_compressed_as_well(engine: FakeEngine) -> None:
    client = client_of(engine, ServerConfig(compress_tools=200))
    result = "The listing goes on and on with words that tell nobody anything at all.\n" * 20
    parts = [{"type": "text", "text": result}, {"type": "text", "text": "exit code 77"}]
    answered = [{"role": "tool", "content": parts}, {"role": "assistant", "content": "Read."}]
    messages = [*HELLO, *answered, {"role": "tool", "content": parts}]
    first, second = chat(client, messages=messages).json()["memdecay"]["compressed_tools"]
    seen = engine.requests[0].messages
    assert "77" in seen[1]["content"] == seen[3]["content"] == second["text"]
    assert first["characters"] == len(result) + len("\nexit code 77")
    # What was compressed in an earlier turn was told then.
    assert first == {key: value for key, value in second.items() if key != "text"} | {"message": 1}


def test_results_that_are_short_stay_as_they_came(engine: FakeEngine) -> None:
    client = client_of(engine, ServerConfig(compress_tools=200))
    parts = [{"type": "text", "text": "exit code 77"}]
    assert not chat(client, messages=[*HELLO, {"role": "tool", "content": parts}]).json()[
        "memdecay"
    ]["compressed_tools"]
    assert engine.requests[0].messages[1]["content"] == parts


def test_fields_may_be_null(client: TestClient) -> None:
    names = (
        "cache_salt prompt_cache_key pins session_id tools tool_choice stream stream_options seed "
        "n temperature top_p logprobs response_format stop max_tokens max_completion_tokens "
        "presence_penalty frequency_penalty logit_bias forced_output user metadata"
    )
    assert chat(client, **dict.fromkeys(names.split())).status_code == 200


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"n": 2}, "one answer a request, got 2"),
        ({"messages": []}, "messages"),
        ({"messages": [{"role": "wizard", "content": "x"}]}, "messages.0.role"),
        (
            {"messages": [{"role": "user", "content": [{"type": "image_url"}]}]},
            "got a part of the type 'image_url'",
        ),
        ({"temperature": 3}, "temperature"),
        ({"top_p": 0}, "top_p"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"stop": ""}, "stop"),
        ({"seed": 10**30}, "seed"),
        ({"pins": [4]}, "pins must name messages"),
        ({"logprobs": True}, "logprobs: not supported"),
        ({"presence_penalty": 0.5}, "presence_penalty: not supported"),
        ({"response_format": {"type": "json_object"}}, "response_format"),
        ({"tool_choice": "required"}, "no tools to choose from"),
        (
            {
                "tools": [WEATHER_TOOL],
                "tool_choice": {"type": "function", "function": {"name": "fly"}},
            },
            "names 'fly', but the tools are get_weather",
        ),
        ({"session_id": "no/slash"}, "session_id"),
        ({"stream_options": {"include_usage": True}}, "only for a stream"),
        ({"tool_choice": "maybe"}, "tool_choice: "),
        ({"stop": 5}, "stop: "),
        ({"messages": [{"role": "user", "content": 5}]}, "messages.0.content: "),
    ],
)
def test_bad_request_is_refused_with_a_sentence(
    client: TestClient, engine: FakeEngine, fields: dict[str, Any], message: str
) -> None:
    response = chat(client, **fields)
    assert response.status_code == 400
    error = response.json()["error"]
    assert message in error["message"]
    assert error["type"] == "invalid_request_error"
    assert not engine.requests


def test_session_named_twice_differently_is_refused(client: TestClient) -> None:
    response = client.post(
        "/v1/chat/completions",
        json={"model": "fake", "messages": HELLO, "session_id": "a"},
        headers={"X-Session-Id": "b"},
    )
    assert response.status_code == 400
    assert "two sessions" in response.json()["error"]["message"]


def test_other_model_is_not_found(engine: FakeEngine) -> None:
    client = client_of(engine, ServerConfig(aliases=("gpt-4o",)))
    response = chat(client, model="other")
    assert response.status_code == 404
    assert response.json()["error"]["code"] == "model_not_found"
    assert "'fake' or 'gpt-4o'" in response.json()["error"]["message"]
    assert chat(client, model="gpt-4o").json()["model"] == "gpt-4o"


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("kind", "status", "code"),
    [
        (ErrorKind.INVALID_REQUEST, 400, None),
        (ErrorKind.TOO_LONG, 400, "context_length_exceeded"),
        (ErrorKind.QUEUE_FULL, 429, "queue_full"),
        (ErrorKind.SESSION_BUSY, 409, "session_busy"),
        (ErrorKind.CANCELLED, 503, "cancelled"),
        (ErrorKind.SHUTTING_DOWN, 503, "shutting_down"),
        (ErrorKind.INTERNAL, 500, "internal_error"),
    ],
)
def test_refusal_of_the_engine_has_its_status(
    engine: FakeEngine, kind: ErrorKind, status: int, code: str | None, *, stream: bool
) -> None:
    engine.refusal = RequestRefusedError(kind, "it can't be")
    response = chat(client_of(engine), stream=stream)
    assert response.status_code == status
    assert response.json()["error"]["code"] == code
    assert response.json()["error"]["message"] == "it can't be"
    assert ("retry-after" in response.headers) == (status in (429, 503))


@pytest.mark.parametrize("stream", [False, True])
def test_failure_before_the_start_has_its_status(engine: FakeEngine, *, stream: bool) -> None:
    engine.failure = Failed(ErrorKind.INTERNAL, "the model broke")
    response = chat(client_of(engine), stream=stream)
    assert response.status_code == 500
    assert response.json()["error"]["message"] == "the model broke"


def test_failure_in_a_stream_is_its_last_event(engine: FakeEngine) -> None:
    engine.failure, engine.fails_after = Failed(ErrorKind.INTERNAL, "the model broke"), 2
    chunks = events(chat(client_of(engine), stream=True).text)
    assert chunks[-1]["error"]["message"] == "the model broke"
    assert chunks[-1]["error"]["code"] == "internal_error"


def test_lone_surrogates_do_no_harm(client: TestClient) -> None:
    messages = '[{"role": "user", "content": "a\\ud800b"}]'
    body = f'{{"model": "fake", "messages": {messages}, "surprise\\udfff": 1}}'
    response = client.post(
        "/v1/chat/completions", content=body, headers={"Content-Type": "application/json"}
    )
    assert response.status_code in (200, 400)
    assert response.json()
