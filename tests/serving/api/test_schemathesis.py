"""Requests made from the API's own description: no fault of the server, no surprise.

Over an engine without a model, whose answers are known, and over the real one, which may fail in
ways of its own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis.checks import not_a_server_error
from schemathesis.generation import GenerationMode
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from memdecay.runtime.config import CacheConfig
from memdecay.serving.api.app import create_app
from memdecay.serving.api.config import ServerConfig
from memdecay.serving.engine.config import EngineConfig
from memdecay.serving.engine.engine import Engine
from memdecay.serving.engine.interface import ServingEngine
from memdecay.serving.engine.request import GenerationRequest
from tests.serving.fake_engine import FakeEngine, fake_view
from tests.tiny import tiny_language_model

CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
]


def described(engine: ServingEngine) -> dict[str, Any]:
    """Return the operations that the server over an engine describes, by their labels."""
    app = create_app(engine, ServerConfig(compress_tools=50))
    schema = schemathesis.openapi.from_dict(app.openapi())
    schema.app = app
    operations = (result.ok() for result in schema.get_all_operations())
    return {operation.label: operation for operation in operations}


OPERATIONS = described(FakeEngine())
SESSIONS = [f"session-{number}" for number in range(4)]


@pytest.fixture(scope="module", params=["without a model", "with a model"])
def operations(request: pytest.FixtureRequest) -> Iterator[dict[str, Any]]:
    """Yield the operations of a server that runs."""
    if request.param == "without a model":
        engine = FakeEngine()
        # Sessions that the routes about sessions can find, and delete.
        engine.held.update({("local", name): fake_view(name) for name in SESSIONS})
        yield described(engine)
        return
    model = tiny_language_model(max_position_embeddings=1024)
    cache = CacheConfig(budget_tokens=256, num_recent=8)
    real = Engine(model, EngineConfig(cache=cache, max_sessions=2, default_max_tokens=4))
    real.start()
    try:
        for name in SESSIONS:
            messages = ({"role": "user", "content": "Hi"},)
            list(real.submit(GenerationRequest(tenant="local", messages=messages, session_id=name)))
        yield described(real)
    finally:
        real.stop()


def test_every_documented_route_is_called() -> None:
    assert set(OPERATIONS) >= {
        "POST /v1/chat/completions",
        "POST /v1/completions",
        "GET /v1/models",
        "POST /tokenize",
        "GET /v1/sessions",
        "GET /v1/sessions/{session_id}",
        "DELETE /v1/sessions/{session_id}",
        "GET /v1/status",
        "GET /metrics",
        "GET /health",
    }


@pytest.mark.parametrize("label", OPERATIONS)
def test_a_request_as_described_gets_what_is_described(
    operations: dict[str, Any], label: str
) -> None:
    # Else all of them were refused, and nothing was seen.
    assert call_often(operations[label], GenerationMode.POSITIVE)[200]


@pytest.mark.parametrize(
    "label",
    # The others take nothing that could be wrong.
    [label for label, operation in OPERATIONS.items() if operation.body],
)
def test_a_request_unlike_the_description_is_refused(
    operations: dict[str, Any], label: str
) -> None:
    call_often(operations[label], GenerationMode.NEGATIVE)


def name_what_there_is(case: Any) -> None:
    """Put names of the server's in place of made ones, which would be refused before all else."""
    model = case.operation.schema.app.state.services.engine.model_name
    if isinstance(case.body, dict):
        case.body["model"] = model
    for name, names in (("name", [model]), ("session_id", SESSIONS)):
        if name in case.path_parameters:
            given = case.path_parameters[name]
            case.path_parameters[name] = names[len(given) % len(names)]


def call_often(operation: Any, mode: GenerationMode) -> Counter[int]:
    """Call an operation and return how often each status came."""
    statuses: Counter[int] = Counter()

    @settings(
        max_examples=16,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=operation.as_strategy(generation_mode=mode))
    def call(case: Any) -> None:
        if mode is GenerationMode.POSITIVE:
            name_what_there_is(case)
        response = case.call_and_validate(base_url="http://127.0.0.1", checks=CHECKS)
        statuses[response.status_code] += 1

    call()
    return statuses
