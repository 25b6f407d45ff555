"""Requests made from the API's own description: no fault of the server, no surprise."""

from __future__ import annotations

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

from memdecay.serving.api.app import create_app
from memdecay.serving.api.config import ServerConfig
from tests.serving.fake_engine import FakeEngine, fake_view

CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
]
APP = create_app(FakeEngine(), ServerConfig(compress_tools=50))
SCHEMA = schemathesis.openapi.from_dict(APP.openapi())
SCHEMA.app = APP
OPERATIONS = [result.ok() for result in SCHEMA.get_all_operations()]


@pytest.fixture(autouse=True)
def session() -> None:
    """Keep a session that the routes about sessions can find."""
    APP.state.services.engine.held["local", "0"] = fake_view("0")


def test_every_documented_route_is_called() -> None:
    assert {operation.label for operation in OPERATIONS} >= {
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


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.label)
def test_a_request_as_described_gets_what_is_described(operation: Any) -> None:
    call_often(operation, GenerationMode.POSITIVE)


@pytest.mark.parametrize(
    "operation",
    # The others take nothing that could be wrong.
    [operation for operation in OPERATIONS if operation.body],
    ids=lambda operation: operation.label,
)
def test_a_request_unlike_the_description_is_refused(operation: Any) -> None:
    call_often(operation, GenerationMode.NEGATIVE)


def call_often(operation: Any, mode: GenerationMode) -> None:
    @settings(
        max_examples=6,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=operation.as_strategy(generation_mode=mode))
    def call(case: Any) -> None:
        case.call_and_validate(base_url="http://127.0.0.1", checks=CHECKS)

    call()
