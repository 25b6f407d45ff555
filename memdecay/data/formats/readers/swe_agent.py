"""SWE-agent ``.traj`` files: the ``history`` that the model saw."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from memdecay.data.formats.base import CERTAIN, NO, Draft, Format, each_item
from memdecay.data.formats.chat import read_messages
from memdecay.data.formats.content import content_text
from memdecay.data.formats.facts import run_facts
from memdecay.data.formats.report import Notes
from memdecay.data.formats.sample import Sample
from memdecay.data.formats.values import as_list, as_str, maps
from memdecay.data.trace import Message


def score(sample: Sample) -> int:
    """Tell a history with message types, or steps of action and observation."""
    for record in sample.records():
        turns = [*maps(record.get("history")), *maps(record.get("trajectory"))]
        if any({"message_type", "agent"} & set(turn) for turn in maps(record.get("history"))):
            return CERTAIN
        if any({"action", "observation", "thought"} <= set(turn) for turn in turns):
            return CERTAIN
    return NO


def _read(record: Mapping[str, Any], notes: Notes, where: str) -> Iterator[Draft]:
    used = ("history", "trajectory", "replay_config")
    history = as_list(record.get("history"))
    if history:
        messages = read_messages((_spelled(turn) for turn in history), notes, where)
        notes.skip("step that repeats the history", len(as_list(record.get("trajectory"))), where)
    else:
        messages = [
            message for step in maps(record.get("trajectory")) for message in _step(step, notes)
        ]
    yield Draft(messages, run_facts(record, used))


def _spelled(turn: object) -> object:
    """Mark demonstrations, which look like the run itself."""
    if isinstance(turn, Mapping) and turn.get("is_demo") is True:
        return {**turn, "kind": "demo"}
    return turn


def _step(step: Mapping[str, Any], notes: Notes) -> list[Message]:
    said = as_str(step.get("response")) or as_str(step.get("thought"))
    action = as_str(step.get("action"))
    said = said if action.strip() in said else "\n".join(part for part in (said, action) if part)
    seen = content_text(step.get("observation"), notes)
    return [Message("assistant", said), *([Message("user", seen)] if seen else [])]


FORMAT = Format("swe-agent", "SWE-agent trajectory", score, each_item(_read))
