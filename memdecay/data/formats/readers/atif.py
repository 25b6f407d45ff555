"""ATIF trajectories (Harbor): calls and their results in the same step."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from memdecay.data.formats.base import CERTAIN, NO, Draft, Format, each_item
from memdecay.data.formats.calls import read_call
from memdecay.data.formats.content import content_text
from memdecay.data.formats.leftovers import note_leftovers
from memdecay.data.formats.report import Notes
from memdecay.data.formats.sample import Sample
from memdecay.data.formats.values import MAX_DEPTH, as_list, as_map, as_str, first_str, maps
from memdecay.data.trace import Message

_READ = {"schema_version", "session_id", "task_id", "agent", "steps", "final_metrics", "notes"}
_READ |= {"subagent_trajectories", "trajectory_id", "continued_trajectory_ref"}
_READ_OF_AGENTS = ("name", "version", "model_name", "extra", "tool_definitions")
_READ_OF_STEPS = ("step_id", "source", "message", "reasoning_content", "tool_calls", "observation")
_ROLES = {"agent": "assistant", "user": "user", "system": "system"}


def score(sample: Sample) -> int:
    """Tell the format's own version mark, or steps of its shape."""
    for record in sample.records():
        if as_str(record.get("schema_version")).startswith("ATIF"):
            return CERTAIN
        if any({"step_id", "source", "message"} <= set(step) for step in maps(record.get("steps"))):
            return CERTAIN
    return NO


def _read(record: Mapping[str, Any], notes: Notes, where: str, depth: int = 0) -> Iterator[Draft]:
    messages: list[Message] = []
    for step in as_list(record.get("steps")):
        if isinstance(step, Mapping):
            messages += _step(step, notes)
        else:
            notes.skip("step that is no object", where=where)
    agent = as_map(record.get("agent"))
    meta: dict[str, Any] = {
        "agent": {key: agent[key] for key in _READ_OF_AGENTS[:-1] if agent.get(key)}
    }
    meta |= {"final_metrics": record.get("final_metrics"), "notes": record.get("notes")}
    note_leftovers(record, _READ, notes, "trajectory")
    note_leftovers(agent, _READ_OF_AGENTS, notes, "agent")
    facts = {"task_id": first_str(record, ("task_id", "session_id")), "meta": meta}
    yield Draft(messages, facts | {"tools": agent.get("tool_definitions")})
    for inner in maps(record.get("subagent_trajectories")) if depth < MAX_DEPTH else ():
        for draft in _read(inner, notes, where, depth + 1):
            draft.extra["task_id"] = facts["task_id"] or draft.extra["task_id"]
            yield draft


def _step(step: Mapping[str, Any], notes: Notes) -> list[Message]:
    source = as_str(step.get("source"))
    calls = [read_call(raw, notes) for raw in as_list(step.get("tool_calls"))]
    thoughts = content_text(step.get("reasoning_content"), notes)
    message = Message(
        _ROLES.get(source, source or "user"),
        content_text(step.get("message"), notes),
        tuple(call for call in calls if call is not None),
        (("reasoning_content", thoughts),) if thoughts else (),
    )
    seen = step.get("observation")
    results = as_list(as_map(seen).get("results")) or ([{"content": seen}] if as_str(seen) else [])
    note_leftovers(step, _READ_OF_STEPS, notes, "step")
    return [message, *(_result(raw, notes) for raw in results)]


def _result(raw: object, notes: Notes) -> Message:
    result = as_map(raw)
    call_id = first_str(result, ("source_call_id",))
    extra = (("tool_call_id", call_id),) if call_id else ()
    note_leftovers(result, ("source_call_id", "content"), notes, "result")
    return Message("tool", content_text(result.get("content") if result else raw, notes), (), extra)


FORMAT = Format("atif", "ATIF trajectory", score, each_item(_read))
