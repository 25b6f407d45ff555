"""tau2-bench results: simulations with flat calls, and user tools beside the agent's."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from memdecay.data.formats.base import CERTAIN, NO, Draft, Format, each_item
from memdecay.data.formats.chat import read_messages
from memdecay.data.formats.facts import run_facts
from memdecay.data.formats.leftovers import note_leftovers
from memdecay.data.formats.report import Notes
from memdecay.data.formats.sample import Sample
from memdecay.data.formats.values import as_list, as_map, as_str, maps
from memdecay.data.trace import Message


def score(sample: Sample) -> int:
    """Tell a results file with simulations, or single simulations."""
    for record in sample.records():
        if any("messages" in run for run in maps(record.get("simulations"))):
            return CERTAIN
        if {"tasks", "simulations"} <= set(record) or {"task_id", "messages", "reward_info"} <= set(
            record
        ):
            return CERTAIN
    return NO


def _read(record: Mapping[str, Any], notes: Notes, where: str) -> Iterator[Draft]:
    runs = list(maps(record["simulations"])) if "simulations" in record else [record]
    if not runs:
        notes.skip("results without simulations", where=where)
    environment = as_map(as_map(record.get("info")).get("environment_info"))
    policy = as_str(environment.get("policy"))
    if "simulations" in record:
        note_leftovers(record, ("simulations", "info"), notes, "results file")
        note_leftovers(environment, ("policy", "tool_defs", "domain_name"), notes, "environment")
    for run in runs:
        raws = [part for raw in as_list(run.get("messages")) for part in _opened(raw)]
        messages = read_messages(raws, notes, where)
        if policy and not any(message.role == "system" for message in messages):
            messages.insert(0, Message("system", policy))
        facts = run_facts(run, ("messages", "id", "simulations"))
        yield Draft(messages, {"tools": environment.get("tool_defs")} | facts)


def _opened(raw: object) -> list[object]:
    """Open a message that holds the results of several calls."""
    inner = as_list(as_map(raw).get("tool_messages"))
    return inner or [raw]


FORMAT = Format("tau2", "tau2-bench results", score, each_item(_read, "simulations"))
