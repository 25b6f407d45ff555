"""`memdecay run` shows what was forgotten and keeps what is pinned."""

from __future__ import annotations

import io
import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from memdecay.classifier.regions import Region
from memdecay.cli.explanation import explanation_table
from memdecay.runtime.explanation import ExplainedSpan
from tests.cli.conftest import RunCommand


def span(start: int, at: int, bits: int = 0, text: str = "text") -> ExplainedSpan:
    return ExplainedSpan(text, start, start + 3, Region.KEY_DECISION, bits, at, -1.25)


def printed(spans: list[ExplainedSpan], num_shown: int) -> str:
    console = Console(width=160, record=True, file=io.StringIO())
    console.print(explanation_table(spans, num_shown))
    return console.export_text()


def test_newest_changes_come_first_and_hostile_text_is_tamed() -> None:
    text = printed([span(0, 100), span(8, 300, bits=2, text="[red]a\x1b[0m\x00b"), span(4, 200)], 2)

    assert "the last 2 of 3 spans" in text
    assert text.index("300") < text.index("200")
    assert "2 bits" in text
    assert "[red]a·[0m·b" in text
    assert not re.search(r"\b100\b", text)


def test_a_decision_found_late_says_what_it_was() -> None:
    found = replace(span(0, 100, bits=16), promoted_from=Region.TOOL_SUMMARY)

    text = " ".join(printed([found], 1).split())

    assert "found by attention, was tool_summary" in text


def test_run_explains_and_pins(labelled: Path, tiny_model: Path, command: RunCommand) -> None:
    arguments = (
        *("run", "--trace", labelled, "--model", tiny_model, "--budget", 160, "--num-recent", 32),
        *("--max-new-tokens", 0, "--policy", "memdecay", "--explain", 5),
    )

    outcome = command(*arguments)
    assert outcome.exit_code == 0
    assert "Forgotten or faded" in outcome.out

    outcome = command(*arguments, "--pin", 999)
    assert outcome.exit_code == 2
    assert "pins must be from 0 to" in outcome.error


@pytest.mark.parametrize("place", [0, 1])
def test_a_pin_that_does_not_fit_is_one_sentence(
    place: int, tmp_path: Path, tiny_model: Path, command: RunCommand
) -> None:
    trace = tmp_path / "long.jsonl"
    long = "many words that fill the budget " * 8
    messages = [{"role": role, "content": long} for role in ("user", "assistant")]
    trace.write_text(json.dumps({"id": "a", "messages": messages}) + "\n")

    outcome = command(
        *("run", "--trace", trace, "--model", tiny_model, "--budget", 160, "--num-recent", 32),
        *("--max-new-tokens", 0, "--pin", place),
    )

    assert outcome.exit_code == 2
    assert "pin" in outcome.error
    assert "Traceback" not in outcome.error
