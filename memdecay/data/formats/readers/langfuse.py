"""Langfuse exports: the generations of a trace, as JSON strings or parsed, or as ChatML."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from memdecay.data.formats.base import CERTAIN, NO, Draft, Format, each_item
from memdecay.data.formats.chat import read_messages
from memdecay.data.formats.exchange import exchange, is_message
from memdecay.data.formats.leftovers import note_leftovers
from memdecay.data.formats.report import Notes
from memdecay.data.formats.sample import Sample
from memdecay.data.formats.values import (
    as_list,
    as_map,
    as_str,
    dump_json,
    first_str,
    maps,
    unpack_json,
)

_MODEL_CALLS = ("GENERATION", "generation")
_TELEMETRY = ("gen_ai.", "event.")
_OBSERVATION_TYPES = {"GENERATION", "SPAN", "EVENT", "AGENT", "TOOL", "CHAIN", "RETRIEVER"}

# When, where and with what settings a call was made, and what it cost.
_READ = {"input", "output", "name", "statusMessage", "traceId", "parentObservationId", "level"}
_READ |= {"startTime", "endTime", "completionStartTime", "updatedAt", "environment", "projectId"}
_READ |= {"modelParameters", "usageDetails", "costDetails", "promptId", "promptName", "version"}
_READ |= {"internalModelId", "unit"}
_FACTS = ("name", "tags", "sessionId", "scores")
_READ_OF_TRACES = {*_READ, *_FACTS, "observations", "trace", "userId", "release", "htmlPath"}
_READ_OF_TRACES |= {"externalId"}


def score(sample: Sample) -> int:
    """Tell exports with observations, loose observations, or ChatML by observation id."""
    for record in sample.records():
        if any({"type", "traceId"} & set(item) for item in maps(record.get("observations"))):
            return CERTAIN
        if "traceId" in record and as_str(record.get("type")) in _OBSERVATION_TYPES:
            return CERTAIN
        if record and all(_is_chatml(value) for value in record.values()):
            return CERTAIN
    return NO


def _read(record: Mapping[str, Any], notes: Notes, where: str) -> Iterator[Draft]:
    if "observations" not in record and record and all(_is_chatml(v) for v in record.values()):
        yield from _chatml(record, notes)
        return
    trace = as_map(record.get("trace")) or record
    observations = list(maps(record.get("observations"))) or (
        [record] if "traceId" in record else []
    )
    calls = [item for item in observations if item.get("type") in _MODEL_CALLS]
    calls.sort(key=lambda item: as_str(item.get("startTime")))
    notes.skip("observation that is no model call", len(observations) - len(calls), where)
    facts = _facts(trace)
    for part in (record, trace) if "observations" in record else ():
        note_leftovers(part, _READ_OF_TRACES, notes, "trace")
    for call in calls or ([trace] if "observations" in record or not observations else []):
        messages = exchange(call.get("input"), call.get("output"), notes, where)
        if messages:
            note_leftovers(call, _READ, notes, "model call", [m.content for m in messages])
            about = {"model": call.get("model")}
            about |= {"error": call["statusMessage"]} if call.get("statusMessage") else {}
            model = {"meta": {**facts.get("meta", {}), **about}}
            given = as_map(unpack_json(call.get("input")))
            tools = given.get("tools") or given.get("functions")
            yield Draft(messages, facts | model | {"tools": tools}, where=where)
        else:
            notes.skip("model call without messages", where=where)
    if calls and calls[0] is not trace:
        own = sum(bool(trace.get(side)) for side in ("input", "output"))
        notes.skip("input or output of the trace beside its model calls", own, where)


def _facts(trace: Mapping[str, Any]) -> dict[str, Any]:
    task = first_str(trace, ("traceId", "id"))
    meta = {key: trace[key] for key in _FACTS if trace.get(key)}
    meta |= {"metadata": unpack_json(trace["metadata"])} if trace.get("metadata") else {}
    return {"task_id": task, "meta": meta}


def _is_chatml(value: object) -> bool:
    sides = [as_map(as_map(value).get(side)) for side in ("input", "output")]
    return any("success" in side for side in sides)


def _chatml(record: Mapping[str, Any], notes: Notes) -> Iterator[Draft]:
    for name, observation in record.items():
        before, after = (_side(observation, side, name, notes) for side in ("input", "output"))
        note_leftovers(as_map(observation), ("input", "output"), notes, "model call")
        raws = after if before and after[: len(before)] == before else before + after
        messages = read_messages((_spelled(raw) for raw in raws), notes, name)
        if messages:
            tools = next((raw["tools"] for raw in maps(raws) if raw.get("tools")), None)
            yield Draft(messages, {"tools": tools} if tools else {}, where=name)


def _side(observation: object, side: str, name: str, notes: Notes) -> list[Any]:
    value = as_map(as_map(observation).get(side))
    if value and value.get("success") is not True:
        notes.skip(f"{side} that Langfuse could not read", where=name)
    note_leftovers(value, ("success", "data", "error"), notes, f"model call's {side}")
    return as_list(value.get("data"))


def _spelled(raw: object) -> object:
    """Open a message that stands under ``json``; other JSON is a tool's result."""
    item = as_map(raw)
    inner = as_map(item.get("json"))
    if "role" in item:
        # Langfuse puts there what it does not know, the names of telemetry among it.
        more = {key: value for key, value in inner.items() if not key.startswith(_TELEMETRY)}
        return more | {key: value for key, value in item.items() if key not in ("json", "tools")}
    if not inner:
        return raw
    message = as_map(inner.get("message"))
    if message or is_message(inner):
        return message or inner
    return {"role": "tool", "content": dump_json(inner)}


FORMAT = Format(
    "langfuse", "Langfuse export", score, each_item(_read), merges=True, is_one_task=True
)
