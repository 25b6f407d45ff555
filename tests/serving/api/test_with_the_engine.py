"""The server over the real engine with a tiny random model."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pytest
from openai import BadRequestError, NotFoundError, OpenAI

from memdecay.classifier.llm import LanguageModel
from memdecay.runtime.config import CacheConfig
from memdecay.serving.api.config import ServerConfig
from memdecay.serving.api.keys import add_key, load_keys
from memdecay.serving.engine.config import EngineConfig
from memdecay.serving.engine.engine import Engine
from tests.serving.api.conftest import WEATHER_TOOL, client_of, running_server, wait_until
from tests.tiny import NATIVE_TOOLS, STRICT, tiny_language_model

CACHE = CacheConfig(budget_tokens=160, num_recent=32, low_watermark=0.7)
SYSTEM = {"role": "system", "content": "You keep the list of the flights."}


@pytest.fixture(scope="module")
def clients(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[OpenAI, OpenAI]]:
    """Yield the clients of two tenants of one server."""
    path = tmp_path_factory.mktemp("keys") / "keys.toml"
    keys = [add_key(path, tenant) for tenant in ("alice", "bob")]
    engine = Engine(
        tiny_language_model(max_position_embeddings=2048),
        EngineConfig(cache=CACHE, max_sessions=4, default_max_tokens=8),
    )
    with running_server(engine, keys=load_keys(path)) as server:
        alice, bob = (
            OpenAI(base_url=f"{server.url}/v1", api_key=key, max_retries=0) for key in keys
        )
        with alice, bob:
            yield alice, bob


def ask(client: OpenAI, messages: list[Any], **fields: Any) -> Any:
    return client.chat.completions.create(
        model="tiny", messages=messages, temperature=0, **{"max_tokens": 6, **fields}
    )


def test_next_turn_reads_only_what_is_new(clients: tuple[OpenAI, OpenAI]) -> None:
    messages: list[Any] = [SYSTEM, {"role": "user", "content": "Which flights are there?"}]
    first = ask(clients[0], messages)
    messages.append(first.choices[0].message.model_dump(exclude_none=True))
    messages.append({"role": "user", "content": "And tomorrow?"})
    second = ask(clients[0], messages)
    assert second.usage.prompt_tokens_details.cached_tokens > first.usage.prompt_tokens
    assert second.memdecay["session_id"] == first.memdecay["session_id"]


def test_stream_says_what_the_whole_answer_says(clients: tuple[OpenAI, OpenAI]) -> None:
    messages = [SYSTEM, {"role": "user", "content": "Say it twice."}]
    whole = ask(clients[0], messages, extra_body={"session_id": "whole"})
    chunks = ask(clients[0], messages, stream=True, extra_body={"session_id": "stream"})
    pieces = [chunk.choices[0].delta.content or "" for chunk in chunks]
    assert "".join(pieces) == whole.choices[0].message.content


def test_sessions_of_the_same_name_are_the_tenants_own(clients: tuple[OpenAI, OpenAI]) -> None:
    for number, client in enumerate(clients):
        content = f"secret {number} " * (number + 2)
        ask(client, [{"role": "user", "content": content}], extra_body={"session_id": "same"})
    seen = [client.get("/sessions/same", cast_to=object) for client in clients]
    assert seen[0]["tokens_seen"] != seen[1]["tokens_seen"]  # type: ignore[index]
    clients[0].delete("/sessions/same", cast_to=object)
    assert clients[1].get("/sessions/same", cast_to=object)


def test_forced_call_and_its_result_go_on_in_the_cache(clients: tuple[OpenAI, OpenAI]) -> None:
    client = clients[1]
    messages: list[Any] = [{"role": "user", "content": "How is the weather?"}]
    answer = ask(client, messages, tools=[WEATHER_TOOL], tool_choice="required", max_tokens=200)
    choice = answer.choices[0]
    assert choice.finish_reason == "tool_calls"
    messages.append(choice.message.model_dump(exclude_none=True))
    call_id = choice.message.tool_calls[0].id
    messages.append({"role": "tool", "tool_call_id": call_id, "content": "Sunny, 21 degrees"})
    after = ask(client, messages, tools=[WEATHER_TOOL])
    assert after.memdecay["session_id"] == answer.memdecay["session_id"]
    assert after.usage.prompt_tokens_details.cached_tokens > answer.usage.prompt_tokens


def test_prompt_is_counted_as_it_is_billed(clients: tuple[OpenAI, OpenAI]) -> None:
    messages = [SYSTEM, {"role": "user", "content": "How many tokens is that?"}]
    base = str(clients[0].base_url).removesuffix("/v1/")
    counted: Any = clients[0].post(f"{base}/tokenize", body={"messages": messages}, cast_to=object)
    assert counted["count"] == ask(clients[0], messages).usage.prompt_tokens


def status(client: OpenAI) -> Any:
    return client.get("/status", cast_to=object)


def test_client_that_goes_in_a_stream_costs_nobody_anything(
    clients: tuple[OpenAI, OpenAI],
) -> None:
    alice, bob = clients
    question = [SYSTEM, {"role": "user", "content": "Is anybody there?"}]
    before = ask(bob, question, extra_body={"session_id": "before"})
    stream = ask(alice, question, max_tokens=1500, stream=True, extra_body={"session_id": "gone"})
    next(iter(stream))
    stream.close()
    beside = ask(bob, question, extra_body={"session_id": "beside"})
    assert beside.choices[0].message.content == before.choices[0].message.content
    wait_until(lambda: status(alice)["num_running"] == 0)
    for client in clients:
        listed: Any = client.get("/sessions", cast_to=object)
        for session in listed["data"]:
            client.delete(f"/sessions/{session['id']}", cast_to=object)
    device = status(alice)["tiers"]["device"]
    assert (device["num_sessions"], device["used_bytes"]) == (0, 0)


@pytest.mark.parametrize(
    ("content", "message"),
    [("words " * 3000, "more than the model's context"), ("words " * 100, "newest user message")],
)
def test_oversize_prompt_is_refused_and_leaves_nothing(
    clients: tuple[OpenAI, OpenAI], content: str, message: str
) -> None:
    with pytest.raises(BadRequestError, match=message) as refused:
        ask(clients[0], [{"role": "user", "content": content}], extra_body={"session_id": "big"})
    assert refused.value.code == "context_length_exceeded"
    with pytest.raises(NotFoundError):
        clients[0].get("/sessions/big", cast_to=object)


SMALL = CacheConfig(budget_tokens=300, num_recent=32, low_watermark=0.7, policy="region")


def converse(llm: LanguageModel, cache: CacheConfig, num_turns: int, **fields: Any) -> list[Any]:
    """Hold a conversation whose every answer goes back as it came; return the bodies."""
    engine = Engine(llm, EngineConfig(cache=cache, max_sessions=2))
    engine.start()
    client = client_of(engine, ServerConfig())
    messages: list[Any] = [SYSTEM]
    answers = []
    try:
        for turn in range(num_turns):
            if messages[-1]["role"] != "tool":
                messages.append(
                    {"role": "user", "content": f"Turn {turn}: is there a flight? " * 3}
                )
            sampling = {"temperature": 1, "seed": turn, "max_tokens": 8}
            body = {"model": "tiny", "messages": messages} | sampling | fields
            answer = client.post("/v1/chat/completions", json=body).json()
            answers.append(answer)
            message = answer["choices"][0]["message"]
            messages.append({name: value for name, value in message.items() if value is not None})
            messages += [
                {"role": "tool", "tool_call_id": call["id"], "content": "Sunny " * 20}
                for call in message.get("tool_calls") or ()
            ]
    finally:
        engine.stop()
    return answers


@pytest.mark.parametrize("policy", ["region", "memdecay"])
def test_session_over_its_budget_goes_on_from_what_it_keeps(policy: str) -> None:
    """A random model's answers are not what the tokenizer makes of their text."""
    cache = CacheConfig(budget_tokens=160, num_recent=32, low_watermark=0.7, policy=policy)
    answers = converse(tiny_language_model(max_position_embeddings=2048), cache, 6)
    for before, answer in pairwise(answers):
        memory, usage = answer["memdecay"], answer["usage"]
        assert memory["session_id"] == before["memdecay"]["session_id"]
        assert (memory["divergence"], memory["notes"]) == (None, [])
        # All but the answer's last token, which runs with what follows it.
        assert (
            usage["prompt_tokens_details"]["cached_tokens"] == before["usage"]["total_tokens"] - 1
        )
        # With fading, more tokens than that fit the budget's bytes.
        assert memory["tokens_kept"] <= (160 if policy == "region" else memory["tokens_seen"])
        assert memory["kv_bytes"] <= answers[0]["memdecay"]["kv_bytes"]
    memory = answers[-1]["memdecay"]
    assert memory["tokens_seen"] == answers[-1]["usage"]["total_tokens"] - 1
    assert memory["tokens_seen"] > 2 * 160
    assert (sum(memory["evicted_per_region"].values()) > 0) == (policy == "region")


@pytest.mark.parametrize("template", [NATIVE_TOOLS, STRICT])
def test_templates_that_put_space_around_answers_read_nothing_again(template: str) -> None:
    llm = tiny_language_model(template, max_position_embeddings=2048)
    fields = (
        {}
        if template == STRICT
        else {"tools": [WEATHER_TOOL], "tool_choice": "required", "max_tokens": 200}
    )
    answers = converse(llm, SMALL, 3, **fields)
    assert [answer["memdecay"]["divergence"] for answer in answers] == [None] * 3
    assert all(answer["usage"]["prompt_tokens_details"]["cached_tokens"] for answer in answers[1:])
