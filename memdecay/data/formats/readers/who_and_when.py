"""Who&When runs: several agents in one history, with the verdict on who failed beside it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from memdecay.data.formats.base import CERTAIN, NO, Draft, Format, each_item
from memdecay.data.formats.content import content_text
from memdecay.data.formats.facts import run_facts
from memdecay.data.formats.leftovers import note_leftovers
from memdecay.data.formats.report import Notes
from memdecay.data.formats.sample import Sample
from memdecay.data.formats.values import as_list, as_str
from memdecay.data.trace import Message

_ROLES = {"human": "user", "user": "user", "system": "system", "assistant": "assistant"}
_MARKS = {"mistake_agent", "mistake_step", "ground_truth", "groundtruth"}


def score(sample: Sample) -> int:
    """Tell a history beside a verdict."""
    for record in sample.records():
        if "history" in record and len(_MARKS & set(record)) >= 2:
            return CERTAIN
    return NO


def _read(record: Mapping[str, Any], notes: Notes, where: str) -> Iterator[Draft]:
    messages = []
    for turn in as_list(record.get("history")):
        if not isinstance(turn, Mapping):
            notes.skip("message that is no object", where=where)
            continue
        messages.append(_message(turn, notes))
    if not messages and as_str(record.get("question")):
        notes.skip("run without a history", where=where)
    system = record.get("system_prompt")
    if isinstance(system, str) and system:
        messages.insert(0, Message("system", system))
    facts = run_facts(record, ("history", "system_prompt"))
    facts |= {"system_prompts": system} if system and not isinstance(system, str) else {}
    yield Draft(messages, facts)


def _message(turn: Mapping[str, Any], notes: Notes) -> Message:
    """Read a turn; agents speak under their own names, which is kept beside the role."""
    role = as_str(turn.get("role"))
    name = as_str(turn.get("name")) or ("" if role.lower() in _ROLES else role)
    text = content_text(turn.get("content"), notes)
    note_leftovers(turn, ("role", "name", "content"), notes, "message", [text])
    extra = (("name", name),) if name else ()
    return Message(_ROLES.get(role.lower(), "assistant"), text, (), extra)


FORMAT = Format("who-and-when", "Who&When run", score, each_item(_read))
