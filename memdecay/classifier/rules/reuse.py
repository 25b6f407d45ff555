"""Values that a later call uses: where they first appeared was worth remembering."""

from __future__ import annotations

import re
from collections.abc import Iterator

from memdecay.classifier.regions import Region
from memdecay.classifier.rules.conversation import Conversation, Speaker
from memdecay.classifier.rules.parts import PartKind
from memdecay.classifier.rules.rule import Proposal

_VALUE = re.compile(r"[\w./@#-]*\d[\w./@#-]{2,}|[\w-]+(?:[./_][\w-]+)+")
MAX_SOURCES = 3


def reused_values(conversation: Conversation) -> Iterator[Proposal]:
    """Propose tool_summary for pieces of results, key_decision for user messages, that later calls quote.

    It needs later messages: without lookahead it proposes nothing.
    """
    if not conversation.lookahead:
        return
    last_use = _last_uses(conversation)
    found: dict[str, int] = {}
    for turn in conversation.of(Speaker.RESULT, Speaker.USER):
        if turn.is_opening:
            found.update((value, MAX_SOURCES) for value in _VALUE.findall(turn.text))
            continue
        asked = set(_VALUE.findall(turn.asked))
        for segment in turn.segments:
            values = set(_VALUE.findall(turn.segment_text(segment))) - asked
            hits = [
                value for value in values
                if last_use.get(value, -1) > turn.index and found.get(value, 0) < MAX_SOURCES
            ]
            if not hits:
                continue
            for value in hits:
                found[value] = found.get(value, 0) + 1
            is_user = turn.speaker is Speaker.USER
            region = Region.KEY_DECISION if is_user else Region.TOOL_SUMMARY
            yield Proposal(turn.index, segment.start, segment.end, region, 0.7)


def _last_uses(conversation: Conversation) -> dict[str, int]:
    uses: dict[str, int] = {}
    for turn in conversation.of(Speaker.ASSISTANT):
        texts = [*turn.calls]
        texts += [turn.text[p.start : p.end] for p in turn.parts if p.kind is PartKind.CALL]
        for text in texts:
            uses.update((value, turn.index) for value in _VALUE.findall(text))
    return uses
