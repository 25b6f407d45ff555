"""ReAct prompts: a JSON object of named texts, each with worked examples."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from memdecay.data.formats.base import LIKELY, NO, Draft, Format, each_item
from memdecay.data.formats.react import looks_like_react, parse_react, uses_commands
from memdecay.data.formats.report import Notes
from memdecay.data.formats.sample import Sample


def score(sample: Sample) -> int:
    """Tell an object of texts, one of which alternates actions and observations."""
    for record in sample.records():
        texts = [value for value in record.values() if isinstance(value, str)]
        if texts and len(texts) == len(record):
            return LIKELY if any(looks_like_react(t) or uses_commands(t) for t in texts) else NO
    return NO


def _read(record: Mapping[str, Any], notes: Notes, where: str) -> Iterator[Draft]:
    for name, text in record.items():
        if not isinstance(text, str):
            notes.skip("prompt that is no text", where=where)
            continue
        messages = parse_react(text.splitlines(), uses_commands(text))
        yield Draft(messages, {"task_id": name, "meta": {"prompt": name}}, where=name[:60])


FORMAT = Format("react-prompts", "ReAct prompts", score, each_item(_read))
