"""aider's Markdown history: ``####`` before the user's lines, ``>`` before aider's own."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from memdecay.data.formats.base import CERTAIN, NO, Draft, Format
from memdecay.data.formats.sample import Layout, Sample
from memdecay.data.formats.source import Source
from memdecay.data.trace import Message

_START = re.compile(r"# aider chat started at (.*)")


def score(sample: Sample) -> int:
    """Tell the line with which aider starts a chat."""
    is_text = sample.layout is Layout.TEXT
    return CERTAIN if is_text and re.search(r"^# aider chat started at", sample.text, re.M) else NO


@dataclass(slots=True)
class _Chat:
    """The chat under way.

    Attributes:
        draft: Where it starts and when.
        sections: Lines by speaker.
        in_fence: Whether the assistant's last code fence is open.
    """

    draft: Draft
    sections: list[tuple[str, list[str]]] = field(default_factory=list)
    in_fence: bool = False

    def take(self, line: str) -> None:
        role, text = self._split(line)
        if not self.sections or self.sections[-1][0] != role:
            self.sections.append((role, []))
            self.in_fence = False
        if role == "assistant" and line.startswith("```"):
            self.in_fence = not self.in_fence
        self.sections[-1][1].append(text)

    def close(self) -> Draft:
        texts = ((role, "\n".join(lines).strip("\n")) for role, lines in self.sections)
        self.draft.messages = [Message(role, text) for role, text in texts if text.strip()]
        return self.draft

    def _split(self, line: str) -> tuple[str, str]:
        # aider ends its own and the user's lines with two spaces; quotes in code have none.
        if not self.in_fence or line.endswith("  "):
            if line.startswith("#### ") or line.rstrip() == "####":
                return "user", line[5:].removesuffix("  ")
            if line.startswith("> ") or line.rstrip() == ">":
                return "tool", line[2:].removesuffix("  ")
        if not line.strip() and self.sections:
            return self.sections[-1][0], ""
        return "assistant", line


def read(source: Source) -> Iterator[Draft]:
    """Yield a conversation for each chat; edits are part of the assistant's text."""
    chat: _Chat | None = None
    for number, raw in enumerate(source.lines(), 1):
        line = raw.rstrip("\r\n")
        if start := _START.match(line):
            if chat is not None:
                yield chat.close()
            meta = {"meta": {"started": start.group(1).strip()}}
            chat = _Chat(Draft([], meta, where=f"line {number}"))
        elif chat is not None:
            chat.take(line)
        elif line.strip():
            chat = _Chat(Draft([], where=f"line {number}"))
            chat.take(line)
    if chat is not None:
        yield chat.close()


FORMAT = Format("aider", "aider chat history", score, read)
