"""What tools return: the decisive lines, and the bulk around them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

from memdecay.classifier.regions import Region
from memdecay.classifier.rules.conversation import Conversation, Speaker, Turn
from memdecay.classifier.rules.lengths import SHORT_RESULT_CHARS, body_chars, is_long
from memdecay.classifier.rules.records import is_echo, is_profile, is_record
from memdecay.classifier.rules.rule import Proposal

HEAD_CHARS = 220

_LOGGED = re.compile(
    r"^[ \t]*(?:observations?|(?:function|tool) (?:output|result|response)s?)(?: \d+)?"
    r"[ \t]*[:\uff1a].*?"
    r"(?=^[ \t]*(?:thought|action|final answer|question|assistant|finish|(?:function|tool) name)"
    r"(?: \d+)?(?:\.\d+)?[ \t]*[:\uff1a\[]|\Z)",
    re.IGNORECASE | re.MULTILINE | re.DOTALL,
)
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
        if length <= SHORT_RESULT_CHARS or is_record(turn):
            continue
        base = 0.1 if length < 600 else 0.3 if length < 1500 else 0.5 if length < 4000 else 0.7
        yield Proposal(turn.index, 0, len(turn.text), Region.ORDINARY_CONTEXT, base)


def logged_results(conversation: Conversation) -> Iterator[Proposal]:
    """Propose regions for the results in an agent's own log of thoughts, actions and results."""
    for turn in conversation.of(Speaker.ASSISTANT):
        for match in _LOGGED.finditer(turn.text):
            start, end = match.span()
            head = end if end - start <= SHORT_RESULT_CHARS else start + HEAD_CHARS // 2
            yield Proposal(turn.index, start, head, Region.TOOL_SUMMARY, 1.6)
            if head < end:
                yield Proposal(turn.index, head, end, Region.ORDINARY_CONTEXT, 1.8)


def result_heads(conversation: Conversation) -> Iterator[Proposal]:
    """Propose tool_summary for the beginning of a long result."""
    for turn in conversation.of(Speaker.RESULT):
        if is_long(turn) and not is_echo(turn) and not is_profile(turn):
            yield Proposal(turn.index, 0, HEAD_CHARS, Region.TOOL_SUMMARY, 0.5)


def asked_terms(conversation: Conversation) -> Iterator[Proposal]:
    """Propose tool_summary for the few pieces of a long result that hold the call's own words."""
    for turn in conversation.of(Speaker.RESULT):
        if not is_long(turn) or not turn.asked or is_echo(turn):
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
