"""What an independent test of OpenAI's chat API finds."""

from __future__ import annotations

from pathlib import Path

import llm_comply
import pytest
from llm_comply import runner
from llm_comply.config import ComplianceConfig
from llm_comply.schema import SpecLoader
from llm_comply.tests.openai_chat import OPENAI_CHAT_TESTS

from tests.serving.api.conftest import running_server
from tests.serving.fake_engine import FakeEngine

DOES_NOT_APPLY = {"Image Input", "Reasoning Summary"}


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_llm_comply_passes_what_applies_to_a_model_of_text() -> None:
    spec = SpecLoader(str(Path(llm_comply.__file__).parent / "specs" / "openai_chat.json"))
    with running_server(FakeEngine()) as server:
        config = ComplianceConfig(base_url=f"{server.url}/v1", api_key="none", model="fake")
        results = runner.TestRunner(config, OPENAI_CHAT_TESTS, spec).run_all().results
    by_name = {result.name: result for result in results}
    assert {"Tool Calling", "Streaming Usage", "Error Handling"} <= set(by_name)
    for name in set(by_name) - DOES_NOT_APPLY:
        result = by_name[name]
        assert result.status.value == "passed", (name, result.errors)
        assert result.warnings == []
