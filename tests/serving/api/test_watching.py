import json
import logging
import re
from importlib.resources import files
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families
from starlette.testclient import TestClient

from memdecay.serving.api.config import ServerConfig
from memdecay.serving.api.logs import JsonFormatter
from tests.serving.api.conftest import chat, client_of
from tests.serving.fake_engine import FakeEngine


def samples(client: TestClient) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    text = client.get("/metrics").text
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_metrics_bear_vllms_names(client: TestClient) -> None:
    chat(client)
    found = samples(client)
    for name, value in {
        "num_requests_running": 0,
        "num_requests_waiting": 0,
        "kv_cache_usage_perc": 0.25,
        "watermark_level": 0.5,
        "prompt_tokens_total": 100,
        "generation_tokens_total": 30,
        "prefix_cache_queries_total": 100,
        "prefix_cache_hits_total": 25,
        "time_to_first_token_seconds_count": 1,
        "e2e_request_latency_seconds_count": 1,
        "inter_token_latency_seconds_count": 2,
        "session_length_tokens_sum": 100,
    }.items():
        assert found[f"memdecay:{name}", ()] == value, name


def test_metrics_tell_regions_and_tiers(client: TestClient) -> None:
    found = samples(client)
    evicted = (("region", "ordinary_context"),)
    assert found["memdecay:evicted_tokens_total", evicted] == 60
    assert found["memdecay:region_tokens", (("region", "key_decision"),)] == 4
    kinds = {"allocated": 256, "reserved": 512, "occupied": 128}
    for kind, num_bytes in kinds.items():
        assert found["memdecay:kv_cache_bytes", (("kind", kind),)] == num_bytes
    assert found["memdecay:tier_limit_bytes", (("tier", "cpu"),)] == 4096
    assert ("memdecay:tier_limit_bytes", (("tier", "disk"),)) not in found
    assert found["memdecay:sessions_offloaded_total", (("tier", "cpu"),)] == 1
    assert found["memdecay:sessions_offloaded_total", (("tier", "disk"),)] == 0
    assert found["memdecay:request_failure_total", (("kind", "queue_full"),)] == 0


def test_requests_are_counted_by_route_and_not_by_session(client: TestClient) -> None:
    client.get("/v1/sessions/secret-name")
    labels = (("route", "/v1/sessions/{session_id}"), ("status", "404"))
    assert samples(client)["memdecay:http_requests_total", labels] == 1
    assert "secret-name" not in client.get("/metrics").text


def test_refused_requests_count_for_the_route_they_meant(engine: FakeEngine) -> None:
    client = client_of(engine, ServerConfig(max_body_bytes=4096))
    chat(client, messages=[{"role": "user", "content": "a" * 5000}])
    client.delete("/v1/models")
    client.get("/nowhere")
    counted = samples(client)
    for route, status in (("/v1/chat/completions", 413), ("/v1/models", 405), ("other", 404)):
        labels = (("route", route), ("status", str(status)))
        assert counted["memdecay:http_requests_total", labels] == 1, route


def test_two_applications_count_apart(engine: FakeEngine) -> None:
    chat(client_of(engine))
    assert samples(client_of(engine))["memdecay:e2e_request_latency_seconds_count", ()] == 0


def test_dashboard_asks_for_metrics_that_there_are(client: TestClient) -> None:
    """From the start on: a series that comes with its first event hides this event."""
    text = files("memdecay.serving").joinpath("dashboard.json").read_text(encoding="utf-8")
    dashboard = json.loads(text)
    expressions = [
        target["expr"] for panel in dashboard["panels"] for target in panel.get("targets", ())
    ]
    assert len(expressions) > 10
    exposed = {name for name, _ in samples(client)}
    for expression in expressions:
        names = re.findall("memdecay:[a-z0-9_]+", expression)
        assert names
        assert set(names) <= exposed | {"memdecay:http_requests_total"}


def test_status_tells_figures(client: TestClient) -> None:
    data = client.get("/v1/status").json()
    assert data["model"] == "fake"
    assert data["tiers"]["device"] == {"num_sessions": 0, "used_bytes": 256, "limit_bytes": 1024}
    assert data["watermark_level"] == 0.5


def test_health_answers_while_the_engine_works(engine: FakeEngine) -> None:
    assert client_of(engine).get("/health").json() == {"status": "ok"}
    engine.is_stopping = True
    response = client_of(engine).get("/health")
    assert response.status_code == 503
    assert "takes no requests" in response.json()["error"]["message"]


def lines(caplog: pytest.LogCaptureFixture) -> list[dict[str, Any]]:
    return [json.loads(line) for line in caplog.text.splitlines()]


def test_log_lines_are_json_with_the_request(
    client: TestClient, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "memdecay")
    caplog.handler.setFormatter(JsonFormatter())
    response = client.get("/v1/models", headers={"X-Request-Id": "mine-1"})
    assert response.headers["x-request-id"] == "mine-1"
    (line,) = [line for line in lines(caplog) if line["logger"] == "memdecay.serving.access"]
    assert line["request_id"] == "mine-1"
    assert line["route"] == "/v1/models"
    assert line["status"] == 200
    assert line["tenant"] == "local"
    assert line["level"] == "info"


def test_odd_request_id_is_replaced(client: TestClient) -> None:
    response = client.get("/health", headers={"X-Request-Id": "a b\tc"})
    assert response.headers["x-request-id"].startswith("req-")


def test_request_keeps_its_name_down_to_the_engine(client: TestClient, engine: FakeEngine) -> None:
    response = client.post(
        "/v1/chat/completions",
        json={"model": "fake", "messages": [{"role": "user", "content": "x"}]},
        headers={"X-Request-Id": "mine-2"},
    )
    assert response.json()["id"].startswith("chatcmpl-mine-2-")
    assert engine.requests[0].request_id.startswith("mine-2-")


def test_fault_of_the_server_is_logged_and_told(
    engine: FakeEngine, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def break_down() -> None:
        raise ZeroDivisionError("secret detail")

    monkeypatch.setattr(engine, "stats", break_down)
    caplog.handler.setFormatter(JsonFormatter())
    response = client_of(engine).get("/v1/status")
    assert response.status_code == 500
    assert response.json()["error"]["type"] == "server_error"
    assert "secret detail" not in response.text
    assert "ZeroDivisionError" in lines(caplog)[0]["exception"]


def test_page_is_whole_and_loads_nothing_from_elsewhere(client: TestClient) -> None:
    response = client.get("/")
    assert response.headers["content-type"].startswith("text/html")
    assert "default-src 'none'" in response.headers["content-security-policy"]
    assert "src=" not in response.text
    assert "/*STYLE*/" not in response.text
    # The namespace of SVG is a name and nothing that is loaded.
    assert response.text.replace("http://www.w3.org/2000/svg", "").count("http") == 0


def test_routes_are_documented(client: TestClient) -> None:
    assert client.get("/docs").status_code == 200
    paths = client.get("/openapi.json").json()["paths"]
    assert {"/v1/chat/completions", "/v1/completions", "/tokenize", "/metrics"} <= set(paths)
    assert "422" not in json.dumps(paths)
