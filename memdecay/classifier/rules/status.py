"""Status and error lines of results, and the stack frames around them."""

from __future__ import annotations

import re
from collections.abc import Iterator

from memdecay.classifier.regions import Region
from memdecay.classifier.rules.conversation import Conversation, Speaker
from memdecay.classifier.rules.rule import Proposal

_STATUS = re.compile(
    r"<returncode>|exit (?:code|status)\b|return code\b|exitcode\b|"
    r"^[ \t]*(?:applied edit|file (?:updated|created|written|saved)|found \d+|"
    r"no (?:matches|results|such)|the file .* has been|executed successfully|your code did not|"
    r"successfully|created |nothing happens|\[?(?:\d+ )?(?:passed|failed|ok)\b|"
    r"\(?success|done\.?$)|"
    r"\d (?:passed|failed)|failed?\b(?=[ \t]*(?:$|[\[(:=-]))|assertionerror|"
    r"\"(?:status|error|success|message)\"\s*:|not found\b|did not (?:run|match|find)",
    re.MULTILINE,
)
_ERROR = re.compile(
    r"(?:error|exception|warning)\b\s*:|^[ \t]*(?:error|fatal|e {2,}|failed|invalid|usage)\b|"
    r"command not found|no such file|permission denied|cannot\b|could not\b|unable to",
    re.MULTILINE,
)
_FINDING = re.compile(
    r"^[^\s:]+\.\w+:\d+:(?:\d+:)? (?:[a-z]{1,4}\d+|error|fatal|warning)\b", re.MULTILINE
)
_FRAME = re.compile(
    r"\s*(?:File \".*\", line \d+|at [\w.$<>]+\(|Traceback \(|~{2,}|\^+\s*$|-{10,}|={10,}|"
    r"(?:-{2,}>)?\s*\d+ +\w|\w+\.py:\d+: in )",
)
_RAISED = re.compile(r"\s*(?:\w+\.)*\w*(?:Error|Exception)\b")


def status_lines(conversation: Conversation) -> Iterator[Proposal]:
    """Propose tool_summary for lines with a status, an exit code or an outcome."""
    yield from _matching(conversation, _STATUS, Region.TOOL_SUMMARY, 0.7)


def error_lines(conversation: Conversation) -> Iterator[Proposal]:
    """Propose tool_summary for error messages, surest of those that name a place in a file."""
    yield from _matching(conversation, _ERROR, Region.TOOL_SUMMARY, 0.6)
    yield from _matching(conversation, _FINDING, Region.TOOL_SUMMARY, 1.0)


def stack_frames(conversation: Conversation) -> Iterator[Proposal]:
    """Propose ordinary_context for stack frames, tool_summary for the error that ends them."""
    for turn in conversation.of(Speaker.RESULT):
        if "Traceback" not in turn.text and "  File " not in turn.text and "\tat " not in turn.text:
            continue
        in_stack = False
        for segment in turn.segments:
            text = turn.segment_text(segment)
            if _FRAME.match(text):
                in_stack = True
            elif in_stack and _RAISED.match(text):
                in_stack = False
                yield Proposal(turn.index, segment.start, segment.end, Region.TOOL_SUMMARY, 1.0)
            elif not text.startswith((" ", "\t")):
                in_stack = False
            if in_stack:
                yield Proposal(turn.index, segment.start, segment.end, Region.ORDINARY_CONTEXT, 0.8)


def _matching(
    conversation: Conversation, pattern: re.Pattern[str], region: Region, confidence: float
) -> Iterator[Proposal]:
    for turn in conversation.of(Speaker.RESULT):
        seen: set[str] = set()
        for segment in turn.segments_with(pattern):
            text = turn.segment_text(segment)
            if text not in seen:
                seen.add(text)
                yield Proposal(turn.index, segment.start, segment.end, region, confidence)
