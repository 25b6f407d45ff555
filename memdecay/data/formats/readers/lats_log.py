"""LATS logs: time-stamped entries, the prompts among them as ReAct text that grows."""

from __future__ import annotations

import re
from collections.abc import Iterator

from memdecay.data.formats.base import CERTAIN, NO, Draft, Format
from memdecay.data.formats.react import parse_react
from memdecay.data.formats.sample import Layout, Sample
from memdecay.data.formats.source import Source

_ENTRY = re.compile(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d\S* - [A-Z]+ - (.*)", re.DOTALL)
_PROMPT = re.compile(r"(PROMPT|Current)\s*: ?(.*)", re.DOTALL)
_TASKS = re.compile(
    r"(?:Question|Instruction)\s*:\s*(.*?)\s*(?:\n\s*(?:\[|Thought|Action)|$)", re.DOTALL
)


def score(sample: Sample) -> int:
    """Tell a log with prompts or nodes of the search."""
    if sample.layout is not Layout.TEXT or not _ENTRY.match(sample.text.lstrip()):
        return NO
    return CERTAIN if "INFO - PROMPT:" in sample.text or "NEW NODE" in sample.text else NO


def read(source: Source) -> Iterator[Draft]:
    """Yield the conversation in each prompt and each state of the search."""
    for where, entry in _entries(source):
        match = _PROMPT.match(entry)
        if not match:
            kind = "evaluation prompt" if entry.startswith("VALUE PROMPT") else "entry"
            source.notes.skip(f"{kind} of the search's log", where=where)
            continue
        text = match.group(2)
        tasks = [" ".join(task.split())[:300] for task in _TASKS.findall(text)]
        extra = {"task_id": tasks[-1]} if tasks else {}
        meta = {"meta": {"few_shot_in_prompt": True}} if len(tasks) > 1 else {}
        yield Draft(parse_react(text.splitlines()), extra | meta, where=where)


def _entries(source: Source) -> Iterator[tuple[str, str]]:
    """Yield each entry, which ends where the next time stamp stands."""
    lines: list[str] = []
    start = 1
    for number, line in enumerate(source.lines(), 1):
        match = _ENTRY.match(line)
        if match and lines:
            yield f"line {start}", "".join(lines)
        if match:
            lines, start = [match.group(1)], number
        else:
            lines.append(line)
    if lines:
        yield f"line {start}", "".join(lines)


FORMAT = Format("lats-log", "LATS search log", score, read, merges=True)
