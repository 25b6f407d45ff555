from __future__ import annotations

import json
import random

import pytest

from memdecay.classifier.regions import Region
from memdecay.data.generator.builder import TraceBuilder, context, decision, finding
from memdecay.data.generator.dialects import (
    STRUCTURED_STYLES,
    TEXT_STYLES,
    Dialect,
    Tool,
    describe_tools,
)
from memdecay.data.generator.wording import Wording
from memdecay.data.trace import Trace


def write_call(style: str) -> Trace:
    builder = TraceBuilder()
    dialect = Dialect(Wording(random.Random(3)), style)
    dialect.call(builder, "find", {"query": "tea 12"}, decision("I look for tea."))
    dialect.result(builder, finding("found"), context("bulk"))
    return builder.build("t", "s")


@pytest.mark.parametrize("style", TEXT_STYLES)
def test_call_as_text_is_a_finding_after_the_thought(style: str) -> None:
    call, result = write_call(style).messages
    spans = [span for span in write_call(style).spans if span.message == 0]

    assert not call.tool_calls
    assert [span.region for span in spans] == [Region.KEY_DECISION, Region.TOOL_SUMMARY]
    assert "find" in call.content[spans[1].start :]
    assert "tea 12" in call.content[spans[1].start :]
    assert "foundbulk" in result.content


@pytest.mark.parametrize("style", STRUCTURED_STYLES)
def test_structured_call_stands_beside_the_text(style: str) -> None:
    call, result = write_call(style).messages

    assert call.content == "I look for tea."
    assert call.tool_calls[0]["function"]["name"] == "find"
    assert result.content == "foundbulk"
    assert dict(result.extra)["name"] == "find"


def test_openai_result_bears_the_id_of_its_call() -> None:
    call, result = write_call("openai").messages

    assert dict(result.extra)["tool_call_id"] == call.tool_calls[0]["id"]
    assert json.loads(call.tool_calls[0]["function"]["arguments"]) == {"query": "tea 12"}


def test_style_without_ids_has_none() -> None:
    call, result = write_call("openai_without_ids").messages

    assert "id" not in call.tool_calls[0]
    assert "tool_call_id" not in dict(result.extra)


def test_results_come_in_several_roles() -> None:
    roles = {write_call(style).messages[1].role for style in STRUCTURED_STYLES + TEXT_STYLES}

    assert roles == {"tool", "function", "user"}


def test_unknown_style_is_refused() -> None:
    with pytest.raises(ValueError, match="unknown style 'morse'"):
        Dialect(Wording(random.Random(0)), "morse")


def test_every_notation_names_tools_and_parameters() -> None:
    tool = Tool("find", "Find a thing.", {"query": "words"})

    texts = {describe_tools(Wording(random.Random(seed)), [tool]) for seed in range(40)}

    assert len(texts) > 3
    assert all("find" in text and "query" in text and "Find a thing." in text for text in texts)
