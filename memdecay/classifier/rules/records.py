"""Records in JSON that tools return: what the call was made to find, or what its caller knew."""

from __future__ import annotations

import re
from collections.abc import Iterator

from memdecay.classifier.regions import Region
from memdecay.classifier.rules.conversation import Conversation, Speaker, Turn
from memdecay.classifier.rules.lengths import SHORT_RESULT_CHARS, is_long
from memdecay.classifier.rules.rule import Proposal

MAX_RECORD_CHARS = 1000
MAX_LIST_CHARS = 2000
MIN_PROFILE_FIELDS = 5

_RECORD = re.compile(r"\s*[\[{]\s*[\"{\[]")
_CHANGE = re.compile(
    r"\"(?:\w+_)?(?:cancel|update|modify|return|exchange|book|create|delete|change|set|add|remove|"
    r"refund|transfer|send|submit|pay|place|issue)(?:_\w+|(?-i:[A-Z])\w*)?\"",
    re.IGNORECASE,
)
_REMOVAL = re.compile(r"\"(?:\w+_)?(?:cancel|delete|remove|return|refund)\w*\"", re.IGNORECASE)
_OUTCOME = re.compile(
    r"status|error|success|message|result|confirm|refund|cancel|\"amount\": -|tracking|balance",
    re.IGNORECASE,
)
_PERSONAL_FIELD = re.compile(
    r"\"(?:e?mail|address\d?|street|city|zip|phone|dob|birth\w*|first_name|last_name|last_four|brand)"
    r"\":",
    re.IGNORECASE,
)
_CALL_CHARS = 200


def is_record(turn: Turn) -> bool:
    """Tell whether a result is a record, or a list of them."""
    return _RECORD.match(turn.text) is not None


def is_echo(turn: Turn) -> bool:
    """Tell whether a result is the record that the call took back or removed.

    Its caller named it, so neither its beginning nor the call's own words are news.
    """
    return is_record(turn) and _REMOVAL.search(turn.asked[:_CALL_CHARS]) is not None


def is_profile(turn: Turn) -> bool:
    """Tell whether a result is a long record of a person, asked for to find what is theirs."""
    return (
        is_record(turn)
        and len(turn.text) > 2 * SHORT_RESULT_CHARS
        and '"email"' in turn.lower
        and len(_PERSONAL_FIELD.findall(turn.text)) >= MIN_PROFILE_FIELDS
    )


def records(conversation: Conversation) -> Iterator[Proposal]:
    """Propose tool_summary for a JSON record of moderate size: the call was made to find it.

    A record as long as a page is ordinary_context, and so is a list of two: most of it was not
    asked for.
    """
    for turn in conversation.of(Speaker.RESULT):
        if not is_record(turn) or not is_long(turn) or is_echo(turn) or is_profile(turn):
            continue
        limit = MAX_LIST_CHARS if turn.text.lstrip().startswith("[") else MAX_RECORD_CHARS
        is_bulk = len(turn.text) > limit
        region = Region.ORDINARY_CONTEXT if is_bulk else Region.TOOL_SUMMARY
        yield Proposal(turn.index, 0, len(turn.text), region, 0.5)


def profiles(conversation: Conversation) -> Iterator[Proposal]:
    """Propose ordinary_context for a person's address, birthday or card, tool_summary for the rest.

    What is theirs, orders and memberships, is what later calls need.
    """
    for turn in conversation.of(Speaker.RESULT):
        if is_profile(turn) and not is_echo(turn):
            yield from _by_segment(turn, _PERSONAL_FIELD, Region.ORDINARY_CONTEXT, 1.2)


def echoed_records(conversation: Conversation) -> Iterator[Proposal]:
    """Propose ordinary_context for the record that a changing call returns, but for its status.

    The caller knew the record; what it waits for is the outcome. A change may show anywhere in the
    record, so the rule is surer of what was taken back.
    """
    for turn in conversation.of(Speaker.RESULT):
        if is_record(turn) and _CHANGE.search(turn.asked[:_CALL_CHARS]):
            confidence = 1.2 if is_echo(turn) else 0.6
            yield from _by_segment(turn, _OUTCOME, Region.TOOL_SUMMARY, confidence)


def _by_segment(
    turn: Turn, pattern: re.Pattern[str], region: Region, confidence: float
) -> Iterator[Proposal]:
    """Yield one region for segments with a match, the other of the two for those without."""
    other = Region.TOOL_SUMMARY if region is Region.ORDINARY_CONTEXT else Region.ORDINARY_CONTEXT
    for segment in turn.segments:
        chosen = region if pattern.search(turn.segment_text(segment)) else other
        yield Proposal(turn.index, segment.start, segment.end, chosen, confidence)
