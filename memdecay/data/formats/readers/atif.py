"""ATIF trajectories (Harbor): calls and their results in the same step."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from memdecay.data.formats.base import CERTAIN, NO, Draft, Format, each_item
from memdecay.data.formats.calls import read_call
from memdecay.data.formats.content import content_text
from memdecay.data.formats.report import Notes
from memdecay.data.formats.sample import Sample
from memdecay.data.formats.values import as_list, as_map, as_str, first_str, maps
from memdecay.data.trace import Message

_ROLES = {"agent": "assistant", "user": "user", "system": "system"}


def score(sample: Sample) -> int:
    """Tell the format's own version mark, or steps of its shape."""
    for record in sample.records():
        if as_str(record.get("schema_version")).startswith("ATIF"):
            return CERTAIN
        if any({"step_id", "source", "message"} <= set(step) for step in maps(record.get("steps"))):
            return CERTAIN
    return NO


def _read(record: Mapping[str, Any], notes: Notes, where: str) -> Iterator[Draft]:
    messages: list[Message] = []
    for step in as_list(record.get("steps")):
        if isinstance(step, Mapping):
            messages += _step(step, notes)
        else:
            notes.skip("step that is no object", where=where)
    agent = as_map(record.get("agent"))
    meta: dict[str, Any] = {
        "agent": {key: agent[key] for key in ("name", "version", "model_name") if agent.get(key)}
    }
    meta |= {"final_metrics": record.get("final_metrics"), "notes": record.get("notes")}
    facts = {"task_id": first_str(record, ("task_id", "session_id")), "meta": meta}
    yield Draft(messages, facts | {"tools": agent.get("tool_definitions")})


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
    results = maps(as_map(step.get("observation")).get("results"))
    return [message, *(_result(raw, notes) for raw in results)]


def _result(raw: Mapping[str, Any], notes: Notes) -> Message:
    call_id = first_str(raw, ("source_call_id",))
    extra = (("tool_call_id", call_id),) if call_id else ()
    return Message("tool", content_text(raw.get("content"), notes), (), extra)


FORMAT = Format("atif", "ATIF trajectory", score, each_item(_read))
