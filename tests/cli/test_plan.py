"""`memdecay plan` prints a retention plan as JSON."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import RunCommand


def test_a_plan_covers_the_trace_in_blocks(
    labelled: Path, tiny_model: Path, command: RunCommand
) -> None:
    outcome = command(
        *("plan", "--trace", labelled, "--model", tiny_model, "--block-size", 8),
        *("--tokens-per-second", 20, "--pin", 1),
    )

    assert outcome.exit_code == 0
    plan = json.loads(outcome.out)
    edges = [part["token_start"] for part in plan["ranges"]] + [plan["num_tokens"]]
    assert edges[0] == 0
    assert [part["token_end"] for part in plan["ranges"]] == edges[1:]
    assert all(edge % 8 == 0 for edge in edges[:-1])
    assert any(part["duration_ms"] for part in plan["ranges"])
    assert {100} < {part["priority"] for part in plan["ranges"]}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--pin", 999), "--pin must be one of the"),
        (("--block-size", 0), "block_size must be 1 or more"),
        (("--budget", 16), "protected"),
    ],
)
def test_a_plan_that_can_not_be_made_is_one_sentence(
    arguments: tuple[object, ...],
    message: str,
    labelled: Path,
    tiny_model: Path,
    command: RunCommand,
) -> None:
    outcome = command("plan", "--trace", labelled, "--model", tiny_model, *arguments)

    assert outcome.exit_code == 2
    assert message in outcome.error
    assert "Traceback" not in outcome.error
