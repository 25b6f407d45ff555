"""ReAct text, numbered or not, and text games with ``>`` before each command, as messages."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise

from memdecay.data.trace import Message

_HEADER = re.compile(r"\s{0,3}(Question|Claim|Instruction|Task|WebShop|Webshop)\b\s*(?::|$)")
_SPEECH = re.compile(r"(Thought|Action Input|Action|Final Answer|Answer|Finish)\s*(\d*)\s*:", re.I)
_RESULT = re.compile(r"(Observation)\s*(\d*)\s*:", re.I)
_COMMAND = re.compile(r"> ?\S")
_FENCED = re.compile(r"^ {0,3}(```+|~~~+)[^\n]*\n.*?^ {0,3}\1[`~]*[ \t]*$", re.M | re.S)
_HEADING = re.compile(r"^#{1,6} +\S", re.M)
_LONG_OPENING_LINES = 12
_TASK = re.compile(r"\s*(?:Question|Claim|Task|Instruction)?\s*:?\s*([^?\n]+\??)")


@dataclass(slots=True)
class _Section:
    """Lines of one speaker."""

    role: str
    lines: list[str] = field(default_factory=list)


@dataclass(slots=True)
class ReactParser:
    """Takes lines one by one and sorts them by speaker.

    A label counts only at the start of a line and where it is due: an observation after an action,
    the next thought or action after an observation, numbers in order. The same words inside an
    observation, a web page for example, stay part of it.

    Attributes:
        commands: Whether lines with ``>`` are commands (text games) and labels are not looked for.
    """

    commands: bool = False
    _sections: list[_Section] = field(default_factory=list)
    _number: int = 0
    _after_blank: bool = True

    def starts_new(self, line: str) -> bool:
        """Tell whether ``line`` opens another question after a run that is under way."""
        under_way = any(section.role == "assistant" for section in self._sections)
        return under_way and self._after_blank and bool(_HEADER.match(line))

    def feed(self, line: str) -> None:
        """Take a line, with or without its line break."""
        line = line.rstrip("\r\n")
        role = self._command_role(line) if self.commands else self._label_role(line)
        if role is not None:
            self._sections.append(_Section(role))
        elif not self._sections:
            self._sections.append(_Section("user"))
        self._sections[-1].lines.append(line)
        self._after_blank = not line.strip()

    def messages(self) -> list[Message]:
        """Return the messages so far, without empty ones."""
        texts = ((section.role, "\n".join(section.lines).strip("\n")) for section in self._sections)
        return [Message(role, text) for role, text in texts if text.strip()]

    @property
    def role(self) -> str:
        """The speaker of the last line; empty before the first."""
        return self._sections[-1].role if self._sections else ""

    def _command_role(self, line: str) -> str | None:
        if _COMMAND.match(line):
            return "assistant"
        return "tool" if self.role == "assistant" else None

    def _label_role(self, line: str) -> str | None:
        """Return the speaker whose section this line opens, or None if it continues the last."""
        if _HEADER.match(line) and self._after_blank and self.role in ("assistant", "tool"):
            self._number = 0
            return "user"
        if (match := _RESULT.match(line)) and self.role == "assistant":
            return "tool" if self._is_due(match.group(2), self._number) else None
        match = _SPEECH.match(line)
        if match and self.role == "tool" and not self._is_due(match.group(2), self._number + 1):
            return None
        if match:
            self._number = int(match.group(2)[:9] or 0)
            return None if self.role == "assistant" else "assistant"
        return None

    def _is_due(self, number: str, expected: int) -> bool:
        """Tell whether a label's number fits; runs without numbers have none."""
        return number == "" if self._number == 0 else number == str(expected)


def parse_react(lines: Iterable[str], commands: bool = False) -> list[Message]:
    """Return the messages of one text, further questions in it included."""
    parser = ReactParser(commands)
    for line in lines:
        parser.feed(line)
    return parser.messages()


def uses_commands(text: str) -> bool:
    """Tell a text game's log: commands after ``>`` and no labels."""
    lines = text.splitlines()
    commands = sum(1 for line in lines if _COMMAND.match(line))
    return commands >= 2 and not looks_like_react(text) and _has_game_words(lines)


def _has_game_words(lines: Iterable[str]) -> bool:
    words = ("> think:", "> go to", "> take ", "> open ", "> put ", "> look", "> examine ")
    return sum(1 for line in lines if line.lower().startswith(words)) >= 2


def looks_like_react(text: str) -> bool:
    """Tell a text in which thoughts or actions alternate with observations.

    A text about ReAct shows an example, too. Fenced code does not count, and the more stands before
    the first thought or action, the more rounds there must be: two after a long opening, four after
    one with Markdown's headings.
    """
    text = _FENCED.sub("", text)
    messages = parse_react(text.splitlines())
    roles = [message.role for message in messages]
    if "assistant" not in roles:
        return False
    rounds = sum(pair == ("assistant", "tool") for pair in pairwise(roles))
    opening = messages[0].content if roles[0] == "user" else ""
    return (rounds or int(_ends_in_answer(text))) >= _least_rounds(opening)


def _least_rounds(opening: str) -> int:
    if _HEADING.search(opening):
        return 4
    return 2 if len(opening.split("\n")) > _LONG_OPENING_LINES else 1


def _ends_in_answer(text: str) -> bool:
    labels = [
        match.group(1).lower() for line in text.splitlines() if (match := _SPEECH.match(line))
    ]
    return "thought" in labels and ({"final answer", "answer", "finish"} & set(labels)) != set()


def task_of(messages: Iterable[Message]) -> str:
    """Return the question, up to its question mark: the key that trials of one task share."""
    first = next((message.content for message in messages if message.role == "user"), "")
    line = next(_header_lines(first), first.strip())
    match = _TASK.match(line)
    return match.group(1).strip()[:300] if match else ""


def _header_lines(text: str) -> Iterator[str]:
    return (line for line in text.splitlines() if _HEADER.match(line) and ":" in line)
