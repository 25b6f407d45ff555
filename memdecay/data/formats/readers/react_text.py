"""ReAct logs as text: a run for each question, with trial marks and gold answers taken out."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from memdecay.data.formats.base import LIKELY, NO, Draft, Format
from memdecay.data.formats.react import ReactParser, looks_like_react, task_of, uses_commands
from memdecay.data.formats.report import Notes
from memdecay.data.formats.sample import Layout, Sample
from memdecay.data.formats.source import Source

_TRIAL = re.compile(r"\s*#*\s*BEGIN TRIAL\s+(\d+)", re.I)
_STATUS = re.compile(r"\s*-+\s*BEGIN (\w+) AGENTS\s*-+\s*$", re.I)
_GOLD = re.compile(r"(?:Correct answer|Ground truth|Gold answer|Reward)\s*:\s*(.*)", re.I)
_RULER = re.compile(r"\s*(?:#{5,}|={5,}|-{5,})\s*$|\s*(?:Trial summary|END TRIAL)\b.*$", re.I)


@dataclass(slots=True)
class _Log:
    """Where the reader stands: the run under way and the marks that hold for it."""

    parser: ReactParser
    marks: dict[str, str] = field(default_factory=dict)
    gold: list[str] = field(default_factory=list)

    def close(self) -> Draft:
        messages = self.parser.messages()
        meta: dict[str, Any] = {key: value for key, value in self.marks.items() if key != "trial"}
        meta |= {"answer": "\n".join(self.gold)} if self.gold else {}
        extra = {"task_id": task_of(messages), "trial": self.marks.get("trial"), "meta": meta}
        self.parser, self.gold = ReactParser(self.parser.commands), []
        return Draft(messages, {key: value for key, value in extra.items() if value})


def score(sample: Sample) -> int:
    """Tell text in which thoughts or actions and observations alternate."""
    if sample.layout is not Layout.TEXT:
        return NO
    return LIKELY if looks_like_react(sample.text) or uses_commands(sample.text) else NO


def read(source: Source) -> Iterator[Draft]:
    """Yield a run for each question."""
    log: _Log | None = None
    for line in source.lines():
        log = log or _Log(ReactParser(_is_game(source)))
        if _take_mark(line, log, source.notes):
            continue
        if log.parser.starts_new(line):
            yield log.close()
        log.parser.feed(line)
    if log is not None and log.parser.messages():
        yield log.close()


def _is_game(source: Source) -> bool:
    head = ""
    for line in source.lines():
        head += line
        if len(head) > 50_000:
            break
    return uses_commands(head)


def _take_mark(line: str, log: _Log, notes: Notes) -> bool:
    """Take a line that belongs to the log, not to the run."""
    if match := _TRIAL.match(line):
        log.marks["trial"] = match.group(1)
    elif match := _STATUS.match(line):
        log.marks["status"] = match.group(1).lower()
    elif log.parser.role in ("assistant", "tool") and (match := _GOLD.match(line)):
        log.gold.append(match.group(1).strip())
        notes.repair("gold answer moved out of the text")
    elif _RULER.match(line) and log.parser.role != "tool":
        notes.skip("ruler or summary line of the log")
    else:
        return False
    return True


FORMAT = Format("react-text", "ReAct log", score, read)
