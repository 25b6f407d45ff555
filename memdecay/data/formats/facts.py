"""Facts about a run that are no messages: its task, trial, tools, rewards and answers."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from memdecay.data.formats.values import first_str, unpack_json

TASK_KEYS = ("task_id", "instance_id", "question_ID", "question_id", "problem_id", "task_name")
TRIAL_KEYS = ("trial", "trial_id", "epoch", "run_index")
_TOOL_KEYS = ("tools", "functions", "available_tools")


def run_facts(record: Mapping[str, Any], used: Collection[str] = ()) -> dict[str, Any]:
    """Sort what a record says beside its conversation.

    Args:
        record: The record.
        used: Keys that are the conversation itself.

    Returns:
        ``task_id`` (by which train and test are split), ``trial`` and ``tools`` where known, and
        the rest, rewards and gold answers too, under ``meta``, out of the model's sight.
    """
    facts: dict[str, Any] = {}
    task, trial = first_str(record, TASK_KEYS), first_str(record, TRIAL_KEYS)
    facts |= {"task_id": task} if task else {}
    facts |= {"trial": trial} if trial else {}
    tools = next((key for key in _TOOL_KEYS if record.get(key)), _TOOL_KEYS[0])
    if record.get(tools):
        facts["tools"] = unpack_json(record[tools])
    meta = {key: value for key, value in record.items() if key not in (*used, tools)}
    for key in ("id", *TASK_KEYS, *TRIAL_KEYS):
        if key in meta and str(meta[key]) in (task, trial, first_str(record, ("id",))):
            del meta[key]
    return facts | ({"meta": meta} if meta else {})
