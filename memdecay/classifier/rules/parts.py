"""What an assistant's text consists of: calls written as text, code, final answers, prose."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum


class PartKind(Enum):
    """The kind of a stretch of an assistant's text."""

    CALL = "call"
    CODE = "code"
    FINAL = "final"


@dataclass(frozen=True, slots=True)
class Part:
    """A stretch that is no prose: its kind and its characters, ``end`` exclusive."""

    kind: PartKind
    start: int
    end: int


_TAGS = (
    r"execute|tool_call|tool_use|function_calls?|invoke|command|bash|code_action|"
    r"execute_\w+|run|function=[\w.-]+"
)
_SHELLS = frozenset({"bash", "sh", "shell", "console", "zsh", "tool_code"})

_PART = re.compile(
    rf"""
    (?P<fence>^[ \t]*```(?P<language>[\w+-]*)[^\n]*(?:\n.*?(?:^[ \t]*```[ \t]*$\n?|\Z)|\Z))
  | (?P<tag><(?P<name>{_TAGS})\b[^>]*>.*?(?:</(?P=name)>|</function>|\Z))
  | (?P<final>(?:^(?:[#*_ ]*final[ _]answer[*_ ]*[:\uff1a]|answer[:;]|最终答案).*)
      |<(?:solution|answer|final_answer)>.*?(?:</(?:solution|answer|final_answer)>|\Z)
      |^(?:action(?:\ \d+)?:\ *)?(?:finish|answer|submit)\[[^\n]*
      |\\boxed\{{[^\n]*)
  | (?P<line>^(?:(?:action|function|tool)(?:\ \d+)?(?:[ ]+(?:name|input))?\ ?[:\uff1a][^\n]*
      |>\ (?!think|actionpath)\w[^\n]*
      |(?:search|lookup|click|type|scroll|goto|retrieve|bingsearch)\ ?\[[^\n]*)\n?)
  | (?P<json>\A\s*[\[{{]+\s*"(?:name|function|tool|action|command|tool_name)"\s*:.*\Z)
    """,
    re.VERBOSE | re.DOTALL | re.MULTILINE | re.IGNORECASE,
)
_EDIT_BLOCK = re.compile(r"^<{5,} ?SEARCH|^@@ |^\*\*\* (?:Begin Patch|Update File)", re.MULTILINE)
_JSON_CALL = re.compile(
    r"[^\n]*\n\s*[\[{]+\s*\"(?:name|function|tool|action|command|tool_name|recipient_name)\"\s*:"
)
_FINAL_CALL = re.compile(
    r"\b(?:finish|submit|answer|complete_task|attempt_completion)\b\s*(?:\[|\(|;|$)", re.IGNORECASE
)
_THINK_CALL = re.compile(r"^action[^\n:]*:\s*think\b", re.IGNORECASE)


def find_parts(text: str) -> tuple[Part, ...]:
    r"""Return the calls, code blocks and final answers of an assistant's text, in order.

    >>> [part.kind.value for part in find_parts("I look.\n```bash\nls\n```\n")]
    ['call']
    """
    return tuple(
        Part(_kind(match), match.start(), match.end())
        for match in _PART.finditer(text)
        if not (match["line"] and _THINK_CALL.match(match["line"]))
    )


def _kind(match: re.Match[str]) -> PartKind:
    if match["final"]:
        return PartKind.FINAL
    if match["fence"]:
        is_call = (
            match["language"].lower() in _SHELLS
            or _EDIT_BLOCK.search(match["fence"])
            or _JSON_CALL.match(match["fence"])
        )
        return PartKind.CALL if is_call else PartKind.CODE
    if match["line"] and _FINAL_CALL.search(match["line"].split(":", 1)[-1]):
        return PartKind.FINAL
    return PartKind.CALL
