"""mini-swe-agent trajectories of every version."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from memdecay.data.formats.base import CERTAIN, NO, Draft, Format, guarded
from memdecay.data.formats.chat import read_messages
from memdecay.data.formats.facts import run_facts
from memdecay.data.formats.report import Notes
from memdecay.data.formats.sample import Sample
from memdecay.data.formats.source import Record, Source
from memdecay.data.formats.values import as_list, as_map, as_str, maps


def score(sample: Sample) -> int:
    """Tell the format's own mark, or a message list with return codes in the results."""
    for value in sample.values:
        record = as_map(value)
        if as_str(record.get("trajectory_format")).startswith("mini-swe-agent"):
            return CERTAIN
        turns = as_list(value) or as_list(record.get("messages"))
        if any(as_str(turn.get("content")).startswith("<returncode>") for turn in maps(turns)):
            return CERTAIN if set(record) <= {"messages", "info", "instance_id"} else NO
    return NO


def read(source: Source) -> Iterator[Draft]:
    """Yield the conversation of each trajectory."""
    for record in source.values():
        yield from guarded(_conversation, record, source.notes)


def _conversation(record: Record, notes: Notes) -> Iterator[Draft]:
    if isinstance(record.value, list):
        yield Draft(read_messages(record.value, notes, record.where))
        return
    raw: Mapping[str, Any] = as_map(record.value)
    messages = read_messages(as_list(raw.get("messages")), notes, record.where)
    yield Draft(messages, run_facts(raw, ("messages",)))


FORMAT = Format("mini-swe-agent", "mini-swe-agent trajectory", score, read)
