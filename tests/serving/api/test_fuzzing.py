"""Whatever comes, the server answers with an error of its own and stays up."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from starlette.testclient import TestClient

from memdecay.serving.api.config import ServerConfig
from tests.serving.api.conftest import WEATHER_TOOL, client_of
from tests.serving.fake_engine import FakeEngine

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=12), inner, max_size=4)
    ),
    max_leaves=12,
)
CONTENT = st.one_of(
    st.text(), st.none(), st.lists(st.fixed_dictionaries({"type": st.just("text")}) | JSON)
)
MESSAGE = st.fixed_dictionaries(
    {"role": st.sampled_from(["system", "user", "assistant", "tool", "robot"])},
    optional={"content": CONTENT, "tool_calls": JSON, "name": JSON, "tool_call_id": JSON},
)
FIELDS = st.fixed_dictionaries(
    {"model": st.just("fake"), "messages": st.lists(MESSAGE, max_size=3) | JSON},
    optional={
        "tools": st.just([WEATHER_TOOL]) | JSON,
        "tool_choice": st.sampled_from(["none", "auto", "required"]) | JSON,
        "max_tokens": st.integers(-1, 9) | JSON,
        "temperature": st.floats(0, 2) | JSON,
        "stop": st.text() | JSON,
        "seed": st.integers() | JSON,
        "stream": st.booleans() | JSON,
        "stream_options": JSON,
        "n": JSON,
        "pins": st.lists(st.integers(-3, 3)) | JSON,
        "session_id": st.text() | JSON,
        "logit_bias": JSON,
        "response_format": JSON,
    },
)


@pytest.fixture(scope="module")
def client() -> TestClient:
    return client_of(FakeEngine(), ServerConfig(compress_tools=50))


def check(client: TestClient, path: str, content: bytes) -> None:
    response = client.post(path, content=content, headers={"Content-Type": "application/json"})
    assert response.status_code in (200, 400, 404), response.text
    if response.status_code != 200:
        assert set(response.json()["error"]) == {"message", "type", "param", "code"}


def as_json(data: Any) -> bytes:
    # With lone surrogates and NaN, as careless clients send them.
    return json.dumps(data).encode("ascii")


@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@given(fields=FIELDS)
def test_any_chat_request_gets_an_answer_or_a_sentence(
    client: TestClient, fields: dict[str, Any]
) -> None:
    check(client, "/v1/chat/completions", as_json(fields))


@settings(max_examples=25)
@given(content=st.binary() | JSON.map(as_json))
@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/completions", "/tokenize"])
def test_any_body_gets_an_answer_or_a_sentence(
    client: TestClient, path: str, content: bytes
) -> None:
    check(client, path, content)
