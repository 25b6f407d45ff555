"""InterCode results: thoughts, actions and observations in lists of their own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from memdecay.data.formats.base import CERTAIN, NO, Draft, Format, each_item
from memdecay.data.formats.calls import tool_call
from memdecay.data.formats.content import content_text
from memdecay.data.formats.leftovers import note_leftovers
from memdecay.data.formats.report import Notes
from memdecay.data.formats.sample import Sample
from memdecay.data.formats.values import as_list, as_map, as_str, first_str
from memdecay.data.trace import Message

_READ = {"environment", "dataset", "task_id", "query", "turn_history", "summary", "gold"}
_READ |= {"hardness"}
_READ_OF_TURNS = ("thoughts", "actions", "observations", "rewards", "valid_action")


def score(sample: Sample) -> int:
    """Tell runs with a turn history, numbered or one by one."""
    for record in sample.records():
        if any("turn_history" in as_map(run) for run in (record, *record.values())):
            return CERTAIN
    return NO


def _read(record: Mapping[str, Any], notes: Notes, where: str) -> Iterator[Draft]:
    runs = {where: record} if "turn_history" in record else record
    for key, run in runs.items():
        if not as_map(as_map(run).get("turn_history")):
            notes.skip("run without a turn history", where=str(key)[:60])
            continue
        yield _run(run, notes, f"run {key}")


def _run(run: Mapping[str, Any], notes: Notes, where: str) -> Draft:
    history = as_map(run["turn_history"])
    environment = as_str(run.get("environment")).removeprefix("ic_") or "shell"
    thoughts, actions, seen = (
        as_list(history.get(key)) for key in ("thoughts", "actions", "observations")
    )
    messages = [Message("user", content_text(run.get("query"), notes))]
    for turn in range(max(len(thoughts), len(actions), len(seen))):
        thought = content_text(thoughts[turn], notes) if turn < len(thoughts) else ""
        call_id = f"call_{turn + 1}"
        calls = []
        if turn < len(actions):
            action = {"input": content_text(actions[turn], notes)}
            calls = [tool_call(environment, action, call_id, notes)]
        messages.append(Message("assistant", thought, tuple(calls)))
        if turn < len(seen):
            pairs = (("tool_call_id", call_id), ("name", environment))
            messages.append(Message("tool", content_text(seen[turn], notes), (), pairs))
    note_leftovers(run, _READ, notes, "run")
    note_leftovers(history, _READ_OF_TURNS, notes, "turn history")
    return Draft(messages, _facts(run, history), where=where)


def _facts(run: Mapping[str, Any], history: Mapping[str, Any]) -> dict[str, Any]:
    number, data = first_str(run, ("task_id",)), as_str(run.get("dataset"))
    meta = {"rewards": history.get("rewards"), "summary": run.get("summary")}
    meta |= {"gold": run.get("gold"), "hardness": run.get("hardness")}
    meta = {key: value for key, value in meta.items() if value is not None}
    return {"task_id": ":".join(part for part in (data, number) if part), "meta": meta}


FORMAT = Format("intercode", "InterCode results", score, each_item(_read))
