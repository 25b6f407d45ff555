"""What of a tool's result counts: values, records, what was computed."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from memdecay.classifier.regions import Region
from memdecay.classifier.rules import rule_labels

TASK = {"role": "user", "content": "Question: which key opens the vault?"}
TOOL, CONTEXT = Region.TOOL_SUMMARY, Region.ORDINARY_CONTEXT


def run_of(command: str, result: str) -> list[dict[str, Any]]:
    call = {"id": "c1", "type": "function", "function": {"name": "bash", "arguments": command}}
    return [
        TASK,
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": result},
    ]


def call_of(name: str, arguments: dict[str, str], result: object) -> list[dict[str, Any]]:
    run = run_of(json.dumps(arguments), json.dumps(result))
    run[1]["tool_calls"][0]["function"]["name"] = name
    return run


def regions_of(messages: list[dict[str, Any]], part: str) -> Region:
    text = messages[-1]["content"]
    labels = rule_labels(messages, lookahead=False)[-1]
    start = text.index(part)
    return Region(int(np.bincount(labels[start : start + len(part)]).argmax()))


def digits(count: int, seed: int = 7) -> str:
    return "".join(map(str, np.random.default_rng(seed).integers(0, 10, count)))


@pytest.mark.parametrize(
    "value", [f"n: {digits(600)}\ne: {digits(600, 8)}", "0110" * 300, "QmFzZTY0QmFzZTY0" * 40]
)
def test_a_long_value_is_what_the_call_was_after(value: str) -> None:
    assert regions_of(run_of('{"input": "cat key.txt"}', value), value[-40:]) is TOOL


@pytest.mark.parametrize(
    "text",
    [
        "\n".join(f"/vault/shelf-{i:03}/drawer-with-a-rather-long-name/box-{i}" for i in range(40)),
        "The mill opened in 1871 and closed. " * 60,
        digits(9000),
    ],
)
def test_long_paths_prose_and_dumps_are_no_values(text: str) -> None:
    assert regions_of(run_of('{"input": "cat notes"}', text), text[-60:]) is CONTEXT


SUMS = "".join(f"file-{i} {digits(32, i)}\n" for i in range(16))


@pytest.mark.parametrize(
    ("command", "region"),
    [
        ('{"input": "find . -type f -exec md5sum {} +"}', TOOL),
        ('{"input": "ls -l | awk \'{print $9, $1}\'"}', TOOL),
        ('{"input": "diff -rq a b"}', TOOL),
        ('{"input": "cat notes"}', CONTEXT),
        ('{"input": "git diff -U3"}', CONTEXT),
    ],
)
def test_what_a_command_computed_counts(command: str, region: Region) -> None:
    assert regions_of(run_of(command, SUMS), "file-12") is region


def test_pages_of_computed_lines_are_bulk() -> None:
    run = run_of('{"input": "md5sum *"}', SUMS * 4)
    assert regions_of(run, SUMS[-40:]) is CONTEXT


BOOKING = {
    "booking_id": "ZX81Q7",
    "guest_id": "ida_moor_2210",
    "rooms": [{"room": f"R{i}", "floor": i, "view": "garden", "price": 80 + i} for i in range(9)],
    "created_at": "2024-05-01",
    "status": "gone",
}


def test_a_record_taken_back_is_known_but_for_its_outcome() -> None:
    run = call_of("cancel_booking", {"booking_id": "ZX81Q7"}, BOOKING)
    assert regions_of(run, '"booking_id": "ZX81Q7"') is CONTEXT
    assert regions_of(run, '"room": "R4"') is CONTEXT
    assert regions_of(run, '"status": "gone"') is TOOL


def test_a_record_looked_up_counts() -> None:
    run = call_of("get_booking", {"booking_id": "ZX81Q7"}, BOOKING)
    assert regions_of(run, '"room": "R4"') is TOOL


@pytest.mark.parametrize("name", ["get_booking", "read_settings", "list_addresses"])
def test_words_that_only_begin_like_a_change_change_nothing(name: str) -> None:
    run = call_of(name, {"guest_id": "ida_moor_2210"}, BOOKING)
    assert regions_of(run, '"created_at": "2024-05-01"') is TOOL


def test_of_a_person_counts_what_is_theirs() -> None:
    person = {
        "name": {"first_name": "Ida", "last_name": "Moor"},
        "address": {"address1": "4 Mill Lane", "city": "Leeds", "zip": "LS1"},
        "email": "ida.moor@example.com",
        "cards": {f"card_{i}": {"brand": "visa", "last_four": f"000{i}"} for i in range(6)},
        "level": "gold and silver, both of them, for as long as anybody can remember",
        "bookings": ["ZX81Q7", "ZX82K1", "ZX90A4"],
    }
    run = call_of("get_guest", {"guest_id": "ida_moor_2210"}, person)
    assert regions_of(run, "4 Mill Lane") is CONTEXT
    assert regions_of(run, '"bookings": ["ZX81Q7"') is TOOL


@pytest.mark.parametrize(("num_options", "region"), [(7, TOOL), (40, CONTEXT)])
def test_few_options_count_and_a_page_of_them_does_not(num_options: int, region: Region) -> None:
    options = [
        {"train": f"T{i}", "from": "York", "to": "Bath", "leaves": "07:00", "seats": {"first": i}}
        for i in range(num_options)
    ]
    run = call_of("search_trains", {"day": "2024-05-24"}, options)
    assert regions_of(run, f'"train": "T{num_options - 2}"') is region


def test_what_a_linter_says_is_an_error() -> None:
    report = "\n".join(f"checked part {i} of the tree, nothing to say about it" for i in range(30))
    line = "app/models.py:53:20: F821 undefined name 'os'"
    run = run_of('{"input": "make lint"}', f"{report}\n{line}\n{report}")
    assert regions_of(run, line) is TOOL
    assert regions_of(run, "checked part 20") is CONTEXT


def test_outputs_of_functions_in_an_agents_own_log_are_results() -> None:
    page = "Leeds is a city. " * 40 + "Its canal is long."
    log = (
        "Thought: I look the city up.\nFunction Name: Encyclopedia\n"
        f'Function Input: {{"query": "Leeds"}}\nFunction Output: {page}\n'
    )
    run = [TASK, {"role": "assistant", "content": log}]
    assert regions_of(run, "I look the city up.") is Region.KEY_DECISION
    assert regions_of(run, "Its canal is long.") is CONTEXT


def test_a_very_long_thought_decides_only_where_it_chooses() -> None:
    retold = "The lock has seven pins and a brass ring around them. " * 60
    thought = f"Thought: {retold}\nThe key must be the brass one, so I take it.\n{retold}\n"
    run = [TASK, {"role": "assistant", "content": f"{thought}Action: take[brass key]"}]
    assert regions_of(run, "I take it.") is Region.KEY_DECISION
    assert regions_of(run, "around them. The lock has") is CONTEXT


def test_code_of_ten_lines_is_the_edit_and_a_program_is_not() -> None:
    lines = [f"    total_{i} = measure(shelf_{i}, drawer_{i}, key={i})" for i in range(60)]
    for count, region in ((12, TOOL), (60, CONTEXT)):
        code = "\n".join(["```bash", "cat > open.py", *lines[:count], "```"])
        run = [TASK, {"role": "assistant", "content": f"I write it down.\n{code}"}]
        assert regions_of(run, f"total_{count - 2}") is region
