import pytest
from starlette.testclient import TestClient

from memdecay.serving.api.config import ServerConfig
from memdecay.serving.engine.request import ErrorKind, RequestRefusedError
from tests.serving.api.conftest import HELLO, WEATHER_TOOL, chat, client_of
from tests.serving.fake_engine import EVICTED, KEPT, PRECISION, FakeEngine


def test_session_tells_what_it_has_seen_kept_and_evicted(client: TestClient) -> None:
    chat(client, session_id="s1")
    data = client.get("/v1/sessions/s1").json()
    assert (data["tokens_seen"], data["tokens_kept"], data["tokens_evicted"]) == (100, 40, 60)
    assert data["kept_per_region"] == KEPT
    assert data["kept_per_precision"] == PRECISION
    assert data["evicted_per_region"] == EVICTED
    assert data["kv_bytes"] == 640
    assert [snapshot["tokens_seen"] for snapshot in data["history"]] == [20, 50, 80]
    assert "forgotten" not in data


def test_session_explains_what_was_evicted(client: TestClient) -> None:
    chat(client, session_id="s1")
    data = client.get("/v1/sessions/s1", params={"explain": "true"}).json()
    assert data["forgotten"] == [
        {"start": 4, "stop": 64, "message_index": 1, "role": "tool", "text": "a long listing"}
    ]


def test_sessions_are_listed_without_texts(client: TestClient) -> None:
    chat(client, session_id="s1")
    chat(client)
    data = client.get("/v1/sessions").json()["data"]
    assert [session["id"] for session in data] == ["s1", "auto-2"]
    assert [session["is_named"] for session in data] == [True, False]


def test_unknown_session_is_not_found(client: TestClient) -> None:
    for method in ("GET", "DELETE"):
        response = client.request(method, "/v1/sessions/none")
        assert response.status_code == 404
        assert response.json()["error"]["code"] == "session_not_found"


def test_models_are_listed_and_found(client: TestClient) -> None:
    assert [model["id"] for model in client.get("/v1/models").json()["data"]] == ["fake"]
    assert client.get("/v1/models/fake").json()["max_model_len"] == 4096
    assert client.get("/v1/models/org/other").status_code == 404


def test_prompt_and_conversation_are_counted(client: TestClient) -> None:
    assert client.post("/tokenize", json={"model": "fake", "prompt": "abc"}).json()["count"] == 3
    body = {"messages": HELLO, "tools": [WEATHER_TOOL]}
    assert client.post("/tokenize", json=body).json()["tokens"] == [0, 1, 2, 3, 4]


def test_a_conversation_is_counted_as_the_model_reads_it(engine: FakeEngine) -> None:
    result = "The listing goes on and on with words that tell nobody anything at all.\n" * 20
    messages = [*HELLO, {"role": "tool", "content": result}]
    client = client_of(engine, ServerConfig(compress_tools=200))
    counted = client.post("/tokenize", json={"messages": messages}).json()["count"]
    assert counted == chat(client, messages=messages).json()["usage"]["prompt_tokens"] < 200
    image = {"role": "user", "content": [{"type": "image_url"}]}
    response = client.post("/tokenize", json={"messages": [image]})
    assert response.status_code == 400
    assert "the model reads text only" in response.json()["error"]["message"]


@pytest.mark.parametrize("body", [{}, {"prompt": "a", "messages": HELLO}])
def test_counting_takes_either_prompt_or_conversation(
    client: TestClient, body: dict[str, object]
) -> None:
    response = client.post("/tokenize", json=body)
    assert response.status_code == 400
    assert "exactly one" in response.json()["error"]["message"]


def test_refusal_to_count_has_its_status(engine: FakeEngine) -> None:
    engine.refusal = RequestRefusedError(ErrorKind.INVALID_REQUEST, "can't be rendered")
    response = client_of(engine).post("/tokenize", json={"model": "fake", "prompt": "a"})
    assert response.status_code == 400
    assert response.json()["error"]["message"] == "can't be rendered"


def test_refusal_to_look_has_its_status(
    engine: FakeEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise RequestRefusedError(ErrorKind.SHUTTING_DOWN, "the server stops")

    monkeypatch.setattr(engine, "sessions", refuse)
    assert client_of(engine).get("/v1/sessions").status_code == 503


def test_completion_goes_on_with_a_prompt(client: TestClient, engine: FakeEngine) -> None:
    data = client.post(
        "/v1/completions", json={"model": "fake", "prompt": "Once", "max_tokens": 2}
    ).json()
    assert data["object"] == "text_completion"
    assert data["choices"][0] == {
        "index": 0,
        "text": "Hello there, ",
        "logprobs": None,
        "finish_reason": "length",
    }
    assert data["usage"]["prompt_tokens"] == 4
    assert data["memdecay"]["evicted_per_region"] == EVICTED
    assert engine.requests[0].prompt == "Once"


@pytest.mark.parametrize("prompt", [[5, 6], [[5, 6]]])
def test_prompt_may_be_tokens(client: TestClient, engine: FakeEngine, prompt: object) -> None:
    assert (
        client.post("/v1/completions", json={"model": "fake", "prompt": prompt}).status_code == 200
    )
    assert engine.requests[0].prompt == (5, 6)


def test_completion_streams(client: TestClient) -> None:
    body = {
        "model": "fake",
        "prompt": ["Once"],
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    text = client.post("/v1/completions", json=body).text
    assert text.count('"text": ') == text.count('"usage": null') == 4
    assert '"finish_reason": "stop"' in text
    assert '"cached_tokens": 2' in text
    assert text.endswith("data: [DONE]\n\n")


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"prompt": ["a", "b"]}, "one prompt a request"),
        ({"prompt": ""}, "prompt"),
        ({"prompt": "a", "echo": True}, "echo: not supported"),
        ({"prompt": "a", "best_of": 3}, "best_of: not supported"),
        ({"prompt": "a", "suffix": "b"}, "suffix: not supported"),
        ({"prompt": "a", "n": 3}, "one answer a request"),
    ],
)
def test_bad_completion_is_refused(
    client: TestClient, fields: dict[str, object], message: str
) -> None:
    response = client.post("/v1/completions", json={"model": "fake"} | fields)
    assert response.status_code == 400
    assert message in response.json()["error"]["message"]
