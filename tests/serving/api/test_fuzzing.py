"""Whatever comes, the server answers with an error of its own and stays up."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from starlette.testclient import TestClient

from memdecay.runtime.config import CacheConfig
from memdecay.serving.api.config import ServerConfig
from memdecay.serving.api.schemas.common import MAX_SEED, MIN_SEED
from memdecay.serving.engine.config import EngineConfig
from memdecay.serving.engine.engine import Engine
from tests.serving.api.conftest import WEATHER_TOOL, client_of
from tests.serving.fake_engine import FakeEngine
from tests.tiny import tiny_language_model

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

HI = {"model": "tiny", "messages": [{"role": "user", "content": "Hi"}], "max_tokens": 2}
TEXT = st.text(max_size=12)
# What the description allows, at its ends above all: all of this has to run.
ALLOWED = st.fixed_dictionaries(
    {
        "model": st.just("tiny"),
        "messages": st.lists(
            st.fixed_dictionaries(
                {"role": st.sampled_from(["system", "user", "assistant", "tool"]), "content": TEXT}
            ),
            min_size=1,
            max_size=3,
        ),
        "max_tokens": st.integers(1, 4),
    },
    optional={
        "temperature": st.floats(0, 2),
        "top_p": st.floats(0, 1, exclude_min=True),
        "seed": st.integers(MIN_SEED, MAX_SEED),
        "stop": st.lists(st.text(min_size=1, max_size=3), max_size=4),
        "tools": st.just([WEATHER_TOOL]),
        "stream": st.booleans(),
        "pins": st.just([0]) | st.just([-1]),
        "session_id": st.sampled_from(["a", "b"]),
        "cache_salt": TEXT,
        "prompt_cache_key": TEXT,
        "forced_output": st.text(min_size=1, max_size=9),
    },
)


@pytest.fixture(scope="module")
def client() -> TestClient:
    return client_of(FakeEngine(), ServerConfig(compress_tools=50))


@pytest.fixture(scope="module")
def served() -> Iterator[TestClient]:
    """Yield a client of the real engine, with room for two sessions that soon fade."""
    cache = CacheConfig(budget_tokens=256, num_recent=8)
    model = tiny_language_model(max_position_embeddings=2048)
    engine = Engine(model, EngineConfig(cache=cache, max_sessions=2))
    engine.start()
    try:
        yield client_of(engine)
    finally:
        engine.stop()


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


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@example(fields=HI | {"temperature": 5e-324})
@example(fields=HI | {"temperature": 1.0, "top_p": 5e-324})
@example(fields=HI | {"temperature": 2.0, "seed": MIN_SEED})
@given(fields=ALLOWED)
def test_what_the_description_allows_gets_an_answer_or_does_not_fit(
    served: TestClient, fields: dict[str, Any]
) -> None:
    content = as_json(fields)
    response = served.post(
        "/v1/chat/completions", content=content, headers={"Content-Type": "application/json"}
    )
    # Pins and what is new may be more than the budget, which nothing in the description tells.
    if response.status_code != 400:
        assert response.status_code == 200, response.text
        assert '"error"' not in response.text
    else:
        assert response.json()["error"]["code"] == "context_length_exceeded"
    assert served.get("/health").status_code == 200
