"""Values that a later call uses: where they first appeared was worth remembering."""

from __future__ import annotations

import re
from collections.abc import Iterator

from memdecay.classifier.regions import Region
from memdecay.classifier.rules.conversation import Conversation, Speaker
from memdecay.classifier.rules.parts import PartKind
from memdecay.classifier.rules.rule import Proposal

_TOKEN = re.compile(r"[\w@#/][\w./@#-]{2,}")
_MARK = re.compile(r"[\d./_]")
MAX_SOURCES = 3


def reused_values(conversation: Conversation) -> Iterator[Proposal]:
    """Propose tool_summary for pieces of results that later calls quote, key_decision for a user's.

    It needs later messages: without lookahead it proposes nothing.
    """
    if not conversation.lookahead:
        return
    last_use = _last_uses(conversation)
    end = max(last_use.values(), default=0)
    found: dict[str, int] = {}
    for turn in conversation.of(Speaker.RESULT, Speaker.USER):
        if turn.index >= end:
            return
        if turn.is_opening:
            found.update((value, MAX_SOURCES) for value in _values(turn.text) & last_use.keys())
            continue
        asked = _values(turn.asked)
        for segment in turn.segments:
            values = (set(_TOKEN.findall(turn.segment_text(segment))) & last_use.keys()) - asked
            hits = [
                value
                for value in values
                if last_use[value] > turn.index and found.get(value, 0) < MAX_SOURCES
            ]
            if not hits:
                continue
            found.update((value, found.get(value, 0) + 1) for value in hits)
            is_user = turn.speaker is Speaker.USER
            region = Region.KEY_DECISION if is_user else Region.TOOL_SUMMARY
            yield Proposal(turn.index, segment.start, segment.end, region, 0.7)


def _last_uses(conversation: Conversation) -> dict[str, int]:
    uses: dict[str, int] = {}
    for turn in conversation.of(Speaker.ASSISTANT):
        texts = [*turn.calls]
        texts += [turn.text[p.start : p.end] for p in turn.parts if p.kind is PartKind.CALL]
        for text in texts:
            uses.update((value, turn.index) for value in _values(text))
    return uses


def _values(text: str) -> set[str]:
    return {token for token in _TOKEN.findall(text) if _MARK.search(token)}
