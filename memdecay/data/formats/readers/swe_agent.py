"""SWE-agent ``.traj`` files: the ``history`` that the model saw."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from memdecay.data.formats.base import CERTAIN, NO, Draft, Format, each_item
from memdecay.data.formats.chat import read_messages
from memdecay.data.formats.content import content_text
from memdecay.data.formats.facts import run_facts
from memdecay.data.formats.leftovers import note_leftovers
from memdecay.data.formats.report import Notes
from memdecay.data.formats.sample import Sample
from memdecay.data.formats.values import as_list, as_map, as_str, maps
from memdecay.data.trace import Message

_READ_OF_STEPS = ("response", "action", "observation", "query", "messages", "state")


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
    notes.skip("configuration to replay the run", int(bool(record.get("replay_config"))), where)
    history = as_list(record.get("history"))
    if history:
        messages = read_messages((_spelled(turn) for turn in history), notes, where)
        notes.skip("step that repeats the history", len(as_list(record.get("trajectory"))), where)
    else:
        steps = as_list(record.get("trajectory"))
        # Newer files have the prompt beside each step.
        first = as_map(steps[0]) if steps else {}
        messages = read_messages(as_list(first.get("query")), notes, where)
        messages += [message for step in steps for message in _step(step, notes, where)]
    yield Draft(messages, run_facts(record, used))


def _spelled(turn: object) -> object:
    """Mark demonstrations, which look like the run itself; drop an action that is a call, too."""
    spelled = dict(as_map(turn))
    if not spelled:
        return turn
    if spelled.get("is_demo") is True:
        spelled["kind"] = "demo"
    if spelled.get("tool_calls"):
        spelled.pop("action", None)
    return spelled


def _step(raw: object, notes: Notes, where: str) -> list[Message]:
    step = as_map(raw)
    if not step:
        notes.skip("step that is no object", where=where)
        return []
    said = as_str(step.get("response")) or as_str(step.get("thought"))
    action = as_str(step.get("action"))
    said = said if action.strip() in said else "\n".join(part for part in (said, action) if part)
    seen = content_text(step.get("observation"), notes)
    note_leftovers(step, _READ_OF_STEPS, notes, "step", [said, seen])
    return [Message("assistant", said), *([Message("user", seen)] if seen else [])]


FORMAT = Format("swe-agent", "SWE-agent trajectory", score, each_item(_read))
