"""tau-bench runs: several trials of each task, with rewards and gold actions beside the talk."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from memdecay.data.formats.base import CERTAIN, NO, Draft, Format, each_item, has_keys
from memdecay.data.formats.chat import read_messages
from memdecay.data.formats.facts import run_facts
from memdecay.data.formats.report import Notes
from memdecay.data.formats.sample import Sample
from memdecay.data.formats.values import as_list


def score(sample: Sample) -> int:
    """Tell runs with a task, a ``traj`` and a reward."""
    return CERTAIN if has_keys(sample, "task_id", "traj") else NO


def _read(record: Mapping[str, Any], notes: Notes, where: str) -> Iterator[Draft]:
    messages = read_messages(as_list(record.get("traj")), notes, where)
    facts = run_facts(record, ("traj",))
    yield Draft(messages, facts)


FORMAT = Format("tau-bench", "tau-bench run", score, each_item(_read))
