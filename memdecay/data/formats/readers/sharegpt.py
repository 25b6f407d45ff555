"""ShareGPT conversations, with Hermes' calls kept as the text they are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from memdecay.data.formats.base import CERTAIN, NO, Draft, Format, each_item
from memdecay.data.formats.calls import read_call
from memdecay.data.formats.chat import read_messages
from memdecay.data.formats.content import content_text
from memdecay.data.formats.facts import run_facts
from memdecay.data.formats.leftovers import note_leftovers
from memdecay.data.formats.report import Notes
from memdecay.data.formats.sample import Sample
from memdecay.data.formats.values import as_list, as_str, first_str, maps, unpack_json
from memdecay.data.trace import Message

_CALL_ROLES = ("function_call", "tool_call")


def score(sample: Sample) -> int:
    """Tell ``conversations`` of ``from`` and ``value``."""
    for record in sample.records():
        if any("from" in turn for turn in maps(record.get("conversations"))):
            return CERTAIN
    return NO


def _read(record: Mapping[str, Any], notes: Notes, where: str) -> Iterator[Draft]:
    messages = []
    if system := content_text(record.get("system"), notes):
        messages.append(Message("system", system))
    for turn in as_list(record.get("conversations")):
        if isinstance(turn, Mapping) and as_str(turn.get("from")) in _CALL_ROLES:
            messages.append(_calls(turn, notes))
        else:
            messages += read_messages([turn], notes, where)
    facts = run_facts(record, ("conversations", "system"))
    yield Draft(messages, facts, id=first_str(record, ("id",)))


def _calls(turn: Mapping[str, Any], notes: Notes) -> Message:
    """Read the calls that a turn holds as JSON; what is no JSON stays text."""
    value = unpack_json(turn.get("value"))
    note_leftovers(turn, ("from", "value"), notes, "message")
    listed = value if isinstance(value, list) else [value]
    if not listed or not all(isinstance(item, Mapping) for item in listed):
        notes.repair("function call that is no JSON kept as text")
        return Message("assistant", content_text(turn.get("value"), notes))
    calls = [read_call(item, notes) for item in listed]
    return Message("assistant", "", tuple(call for call in calls if call is not None))


FORMAT = Format("sharegpt", "ShareGPT conversations", score, each_item(_read))
