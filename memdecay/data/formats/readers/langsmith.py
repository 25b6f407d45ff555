"""LangSmith runs: ingest bodies, exports, and lists of runs with LangChain's messages."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from memdecay.data.formats.base import CERTAIN, NO, Draft, Format, each_item
from memdecay.data.formats.exchange import exchange
from memdecay.data.formats.leftovers import note_leftovers
from memdecay.data.formats.report import Notes
from memdecay.data.formats.sample import Sample
from memdecay.data.formats.values import as_list, as_map, as_str, first_str, maps, unpack_json

# Links, times and costs; the model's settings; the output once more, token by token.
_READ = {"run_type", "inputs", "outputs", "name", "error", "extra", "child_runs", "trace_id"}
_READ |= {"parent_run_id", "parent_run_ids", "child_run_ids", "dotted_order", "end_time"}
_READ |= {"session_name", "reference_example_id", "reference_dataset_id", "manifest_id"}
_READ |= {"first_token_time", "last_queued_at", "trace_start_time", "ttl_seconds", "trace_tier"}
_READ |= {"app_path", "share_token", "serialized", "events", "inputs_preview", "outputs_preview"}
_READ |= {"inputs_s3_urls", "outputs_s3_urls", "s3_urls", "total_cost", "prompt_cost"}
_READ_OF_EXTRAS = ("metadata", "runtime", "invocation_params", "options", "batch_size")


def score(sample: Sample) -> int:
    """Tell runs with a run type and inputs, or a body of posts and patches."""
    for record in sample.records():
        bodies = [*maps(record.get("post")), *maps(record.get("patch")), record]
        if any({"run_type", "inputs"} <= set(body) for body in bodies):
            return CERTAIN
    return NO


def _read(record: Mapping[str, Any], notes: Notes, where: str) -> Iterator[Draft]:
    is_body = "post" in record or "patch" in record
    runs = _merged(record) if is_body else list(_with_children(record))
    if is_body:
        note_leftovers(record, ("post", "patch"), notes, "body of runs")
    model_runs = [run for run in runs if run.get("run_type") == "llm"]
    if not model_runs and all(run.get("parent_run_id") for run in runs):
        notes.skip(f"{as_str(record.get('run_type'))[:40] or 'unknown'} run", where=where)
        return
    chosen = model_runs or runs[:1]
    notes.skip("run that is no model call", len(runs) - len(chosen), where)
    for run in chosen:
        inputs, outputs = unpack_json(run.get("inputs")), unpack_json(run.get("outputs"))
        messages = exchange(inputs, outputs, notes, where)
        said = [message.content for message in messages]
        note_leftovers(run, _READ, notes, "run", said)
        note_leftovers(as_map(run.get("extra")), _READ_OF_EXTRAS, notes, "run", said)
        yield Draft(messages, _facts(run), where=where)


def _merged(body: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Join what was posted when a run started and what was patched when it ended."""
    runs: dict[str, dict[str, Any]] = {}
    for number, part in enumerate([*maps(body.get("post")), *maps(body.get("patch"))]):
        fallback = first_str(part, ("dotted_order", "trace_id")) or str(number)
        key = first_str(part, ("dotted_order", "id")) or fallback
        runs.setdefault(key, {}).update({k: v for k, v in part.items() if v is not None})
    return list(runs.values())


def _with_children(run: Mapping[str, Any], depth: int = 0) -> Iterator[Mapping[str, Any]]:
    yield run
    for child in maps(run.get("child_runs")) if depth < 30 else ():
        yield from _with_children(child, depth + 1)


def _facts(run: Mapping[str, Any]) -> dict[str, Any]:
    task = first_str(run, ("trace_id", "session_id"))
    extra = as_map(run.get("extra"))
    metadata = as_map(extra.get("metadata"))
    holders = (as_map(unpack_json(run.get("inputs"))), as_map(extra.get("invocation_params")))
    named = (as_list(holder.get(key)) for holder in holders for key in ("tools", "functions"))
    tools = next((listed for listed in named if listed), [])
    meta = {key: run[key] for key in ("name", "status", "error", "tags") if run.get(key)}
    facts = {"task_id": task, "meta": meta | dict(metadata)}
    return facts | ({"tools": tools} if tools else {})


FORMAT = Format("langsmith", "LangSmith runs", score, each_item(_read), merges=True)
