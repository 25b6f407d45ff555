"""The clients that agents use, against the server over the fake engine."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import openai
import pytest
from openai import AsyncOpenAI, OpenAI

from memdecay.serving.engine.request import ErrorKind, RequestRefusedError
from tests.serving.api.agents import run_openai_agents, run_smolagents
from tests.serving.api.conftest import HELLO, WEATHER_TOOL, running_server
from tests.serving.fake_engine import EVICTED, FakeEngine


@pytest.fixture(scope="module")
def served() -> Iterator[tuple[FakeEngine, str]]:
    """Serve one fake engine for all tests of this file."""
    engine = FakeEngine()
    with running_server(engine) as server:
        yield engine, f"{server.url}/v1"


@pytest.fixture
def url(served: tuple[FakeEngine, str]) -> str:
    return served[1]


@pytest.fixture
def client(url: str) -> Iterator[OpenAI]:
    with OpenAI(base_url=url, api_key="none", max_retries=0) as client:
        yield client


def create(client: OpenAI, **fields: Any) -> Any:
    return client.chat.completions.create(model="fake", messages=HELLO, **fields)


def test_openai_client_gets_an_answer(client: OpenAI) -> None:
    completion = create(client, temperature=0, extra_body={"session_id": "s"})
    assert completion.choices[0].message.content == "Hello there, friend."
    assert completion.usage.prompt_tokens_details.cached_tokens == 2
    assert completion.memdecay["newly_evicted_per_region"] == EVICTED


def test_openai_client_streams(client: OpenAI) -> None:
    chunks = list(create(client, stream=True, stream_options={"include_usage": True}))
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    assert text == "Hello there, friend."
    assert chunks[-1].usage.completion_tokens == 4


def test_openais_helper_puts_a_stream_together(client: OpenAI) -> None:
    # The helper takes strict tools only.
    strict: Any = WEATHER_TOOL | {"function": WEATHER_TOOL["function"] | {"strict": True}}
    with client.chat.completions.stream(
        model="fake", messages=HELLO, tools=[strict], tool_choice="required"
    ) as stream:
        completion = stream.get_final_completion()
    choice = completion.choices[0]
    assert choice.finish_reason == "tool_calls"
    assert choice.message.tool_calls[0].function.name == "get_weather"


def test_openai_client_holds_a_conversation_with_tools(
    served: tuple[FakeEngine, str], client: OpenAI
) -> None:
    engine, _ = served
    messages: list[Any] = [{"role": "user", "content": "How is the weather?"}]
    answer = client.chat.completions.create(
        model="fake", messages=messages, tools=[WEATHER_TOOL], tool_choice="required"
    )
    message = answer.choices[0].message
    messages += [
        message.model_dump(exclude_none=True),
        {"role": "tool", "tool_call_id": message.tool_calls[0].id, "content": "Sunny"},
    ]
    answer = client.chat.completions.create(model="fake", messages=messages, tools=[WEATHER_TOOL])
    assert answer.choices[0].message.content == "Hello there, friend."
    seen = engine.requests[-1].messages
    assert [item["role"] for item in seen] == ["user", "assistant", "tool"]
    assert json.loads(seen[1]["tool_calls"][0]["function"]["arguments"])["unit"] == "celsius"


def test_openai_client_understands_refusals(
    served: tuple[FakeEngine, str], client: OpenAI, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine, _ = served
    with pytest.raises(openai.BadRequestError, match="one answer a request"):
        create(client, n=2)
    with pytest.raises(openai.NotFoundError, match="not served here"):
        client.chat.completions.create(model="other", messages=HELLO)
    refusal = RequestRefusedError(ErrorKind.QUEUE_FULL, "the queue is full")
    monkeypatch.setattr(engine, "refusal", refusal)
    with pytest.raises(openai.RateLimitError, match="the queue is full"):
        create(client, stream=True)


def test_openai_client_lists_models_and_completes(client: OpenAI) -> None:
    assert [model.id for model in client.models.list()] == ["fake"]
    completion = client.completions.create(model="fake", prompt="Once", max_tokens=1)
    assert completion.choices[0].text == "Hello "


def test_async_openai_client_runs_requests_side_by_side(url: str) -> None:
    async def ask(client: AsyncOpenAI, number: int) -> str:
        stream = await client.chat.completions.create(
            model="fake",
            messages=HELLO,
            stream=True,
            extra_body={"forced_output": f"answer {number}"},
        )
        pieces = [chunk.choices[0].delta.content or "" async for chunk in stream]
        return "".join(pieces)

    async def ask_all() -> list[str]:
        async with AsyncOpenAI(base_url=url, api_key="none") as client:
            return await asyncio.gather(*(ask(client, number) for number in range(8)))

    assert asyncio.run(ask_all()) == [f"answer {number}" for number in range(8)]


@pytest.mark.filterwarnings("ignore")
def test_langchain_holds_a_conversation_with_tools(url: str) -> None:
    langchain_openai = pytest.importorskip("langchain_openai", reason="langchain-openai is missing")
    from langchain_core.messages import HumanMessage, ToolMessage

    model = langchain_openai.ChatOpenAI(
        base_url=url, api_key="none", model="fake", max_retries=0, temperature=0
    )
    forced = model.bind_tools([WEATHER_TOOL], tool_choice="get_weather")
    messages: list[Any] = [HumanMessage("How is the weather?")]
    answer = forced.invoke(messages)
    (call,) = answer.tool_calls
    assert call["args"]["unit"] == "celsius"
    messages += [answer, ToolMessage("Sunny", tool_call_id=call["id"])]
    assert model.bind_tools([WEATHER_TOOL]).invoke(messages).text == "Hello there, friend."
    pieces = [chunk.text for chunk in model.stream(messages)]
    assert "".join(map(str, pieces)) == "Hello there, friend."


@pytest.mark.filterwarnings("ignore")
def test_smolagents_agent_runs_to_its_final_answer(url: str) -> None:
    called, answer = run_smolagents(url, "fake", "How is the weather in Rome?")
    assert called == ["get_weather", "final_answer"]
    assert "Sunny" in answer


@pytest.mark.filterwarnings("ignore")
def test_openai_agents_runs_a_tool(url: str) -> None:
    calls, answer = run_openai_agents(url, "fake", "How is the weather?")
    assert answer == "Hello there, friend."
    assert calls == ["How is the weather?"]
