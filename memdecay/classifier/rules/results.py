"""What tools return: the decisive lines, and the bulk around them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

from memdecay.classifier.regions import Region
from memdecay.classifier.rules.conversation import Conversation, Speaker, Turn
from memdecay.classifier.rules.rule import Proposal
from memdecay.classifier.rules.scaffold import boilerplate_chars

SHORT_RESULT_CHARS = 260
HEAD_CHARS = 220
MAX_RECORD_CHARS = 1000

_CHANGE = re.compile(
    r"\"(?:\w+_)?(?:cancel|update|modify|return|exchange|book|create|delete|change|set|add|remove|"
    r"refund|transfer|send|submit|pay|place|issue)(?:_\w+|[A-Z]\w*)?\"",
    re.IGNORECASE,
)
_OUTCOME = re.compile(
    r"status|error|success|message|result|confirm|refund|cancel|\"amount\": -|tracking|balance",
    re.IGNORECASE,
)
_LOGGED = re.compile(
    r"^[ \t]*observations?(?: \d+)?[ \t]*[:\uff1a].*?"
    r"(?=^[ \t]*(?:thought|action|final answer|question|assistant|finish)(?: \d+)?(?:\.\d+)?"
    r"[ \t]*[:\uff1a\[]|\Z)",
    re.IGNORECASE | re.MULTILINE | re.DOTALL,
)
_RECORD = re.compile(r"\s*[\[{]\s*[\"{]")
_TERM = re.compile(r"[A-Za-z_][\w-]{3,}|\d[\w.-]{2,}")
_COMMON = frozenset(
    {"name", "arguments", "type", "function", "tool_call", "query", "input", "command", "text"}
    | {"value", "true", "false", "null", "path", "file", "http", "https", "html", "json"}
    | {"python", "python3", "import", "from", "self", "print", "return", "with", "that", "this"}
    | {"what", "when", "which", "where", "search", "click", "action", "observation", "thought"}
    | {"bash", "echo", "grep", "head", "tail", "find", "view", "create"}
)


def short_results(conversation: Conversation) -> Iterator[Proposal]:
    """Propose tool_summary for the whole of a short result."""
    for turn in conversation.of(Speaker.RESULT):
        if body_chars(turn) <= SHORT_RESULT_CHARS:
            yield Proposal(turn.index, 0, len(turn.text), Region.TOOL_SUMMARY, 0.8)


def result_bulk(conversation: Conversation) -> Iterator[Proposal]:
    """Propose ordinary_context for long results, the surer the longer and the further in."""
    for turn in conversation.of(Speaker.RESULT):
        length = body_chars(turn)
        if length <= SHORT_RESULT_CHARS or _RECORD.match(turn.text):
            continue
        base = 0.1 if length < 600 else 0.3 if length < 1500 else 0.5 if length < 4000 else 0.7
        yield Proposal(turn.index, 0, len(turn.text), Region.ORDINARY_CONTEXT, base)


def records(conversation: Conversation) -> Iterator[Proposal]:
    """Propose tool_summary for a JSON record of moderate size: the call was made to find it.

    A list of records, or one as long as a page, is ordinary_context: most of it was not asked for.
    """
    for turn in conversation.of(Speaker.RESULT):
        length = len(turn.text)
        if not _RECORD.match(turn.text) or length <= SHORT_RESULT_CHARS:
            continue
        is_long = length > MAX_RECORD_CHARS
        region = Region.ORDINARY_CONTEXT if is_long else Region.TOOL_SUMMARY
        yield Proposal(turn.index, 0, length, region, 0.5)


def echoed_records(conversation: Conversation) -> Iterator[Proposal]:
    """Propose ordinary_context for the record that a changing call returns, but for its status.

    The caller knew the record; what it waits for is the outcome.
    """
    for turn in conversation.of(Speaker.RESULT):
        if not _RECORD.match(turn.text) or not _CHANGE.search(turn.asked[:200]):
            continue
        for segment in turn.segments:
            is_outcome = _OUTCOME.search(turn.segment_text(segment))
            region = Region.TOOL_SUMMARY if is_outcome else Region.ORDINARY_CONTEXT
            yield Proposal(turn.index, segment.start, segment.end, region, 0.6)


def logged_results(conversation: Conversation) -> Iterator[Proposal]:
    """Propose regions for the results in an agent's own log of thoughts, actions and results."""
    for turn in conversation.of(Speaker.ASSISTANT):
        for match in _LOGGED.finditer(turn.text):
            start, end = match.span()
            head = end if end - start <= SHORT_RESULT_CHARS else start + HEAD_CHARS // 2
            yield Proposal(turn.index, start, head, Region.TOOL_SUMMARY, 1.6)
            if head < end:
                yield Proposal(turn.index, head, end, Region.ORDINARY_CONTEXT, 1.8)


def body_chars(turn: Turn) -> int:
    """Return how many characters a result has without the scaffold's own lines."""
    if len(turn.text) <= SHORT_RESULT_CHARS or len(turn.text) > 4 * SHORT_RESULT_CHARS:
        return len(turn.text)
    return len(turn.text) - boilerplate_chars(turn)


def result_heads(conversation: Conversation) -> Iterator[Proposal]:
    """Propose tool_summary for the beginning of a long result."""
    for turn in conversation.of(Speaker.RESULT):
        if len(turn.text) > SHORT_RESULT_CHARS:
            yield Proposal(turn.index, 0, HEAD_CHARS, Region.TOOL_SUMMARY, 0.5)


def asked_terms(conversation: Conversation) -> Iterator[Proposal]:
    """Propose tool_summary for the few pieces of a long result that hold the call's own words."""
    for turn in conversation.of(Speaker.RESULT):
        if len(turn.text) <= SHORT_RESULT_CHARS or not turn.asked:
            continue
        asked = terms(turn.asked) - _COMMON
        if asked:
            yield from _matching(turn, asked)


def _matching(turn: Turn, asked: set[str]) -> Iterator[Proposal]:
    found = [terms(turn.segment_text(segment)) & asked for segment in turn.segments]
    counts = Counter(term for hits in found for term in hits)
    limit = max(2, len(found) // 5)
    for segment, hits in zip(turn.segments, found, strict=True):
        if any(counts[term] <= limit for term in hits):
            yield Proposal(turn.index, segment.start, segment.end, Region.TOOL_SUMMARY, 0.5)


def terms(text: str) -> set[str]:
    """Return the words and numbers of a text that may identify something, in lower case."""
    return {term.lower() for term in _TERM.findall(text)}
