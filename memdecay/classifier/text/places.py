"""Features of a piece in its message: where it stands, what encloses it, whose words it repeats."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence, Set
from dataclasses import dataclass
from functools import lru_cache

from memdecay.classifier.rules.conversation import Speaker, Turn
from memdecay.classifier.rules.parts import Part, PartKind
from memdecay.classifier.rules.segments import Segment

PLACE_FEATURE_NAMES = (
    "speaker_system",
    "speaker_user",
    "speaker_assistant",
    "speaker_result",
    "is_opening",
    "is_chat",
    "acts",
    "log_message_chars",
    "log_start",
    "log_rest",
    "relative_start",
    "log_pieces_before",
    "log_pieces_behind",
    "is_first",
    "is_last",
    "bracket_depth",
    "in_fence",
    "in_call",
    "in_code",
    "in_final",
    "log_part_start",
    "log_part_chars",
    "after_part",
    "before_part",
    "asked_share",
    "asked_covered",
    "asked_rarest",
    "asked_any",
    "asked_longest",
    "opening_share",
    "opening_rarest",
    "assistant_share",
    "assistant_rarest",
    "user_share",
    "commonness",
    "is_repeated",
)

_TERM = re.compile(r"[A-Za-z_][\w-]{2,}|\d[\w.-]+")
_SPEAKERS = (Speaker.SYSTEM, Speaker.USER, Speaker.ASSISTANT, Speaker.RESULT)
_MAX_DEPTH = 6
_LONG_TERM = 4


@dataclass(frozen=True, slots=True)
class Before:
    """What was said before a message, as far as it bears on the message's features.

    Attributes:
        opening: The messages before the first answer.
        assistant: The assistant's last message with its calls.
        user: The user's last message.
    """

    opening: str = ""
    assistant: str = ""
    user: str = ""


@dataclass(frozen=True, slots=True)
class _Words:
    """Sets of words that a piece's own are compared with."""

    asked: Set[str]
    opening: Set[str]
    assistant: Set[str]
    user: Set[str]
    frequency: Counter[str]


def place_features(turn: Turn, before: Before) -> list[list[float]]:
    """Return a row per piece of a message, in the order of `PLACE_FEATURE_NAMES`."""
    texts = [turn.segment_text(segment) for segment in turn.segments]
    pieces = [set(map(str.lower, _TERM.findall(text))) for text in texts]
    words = _Words(
        asked=terms(turn.asked),
        opening=terms(before.opening),
        assistant=terms(before.assistant),
        user=terms(before.user),
        frequency=Counter(word for piece in pieces for word in piece),
    )
    whole = _message_features(turn)
    enclosing = _enclosing(texts)
    seen: set[str] = set()
    rows = []
    for index, (segment, text, piece) in enumerate(zip(turn.segments, texts, pieces, strict=True)):
        stripped = text.strip()
        rows.append(
            [
                *whole,
                *_position(turn, index, segment),
                *enclosing[index],
                *_part_features(turn.parts, segment),
                *_overlaps(piece, words),
                float(stripped in seen),
            ]
        )
        seen.add(stripped)
    return rows


@lru_cache(maxsize=64)
def terms(text: str) -> Set[str]:
    """Return the words and numbers of a text, in lower case."""
    return frozenset(map(str.lower, _TERM.findall(text)))


def _message_features(turn: Turn) -> list[float]:
    return [
        *(float(turn.speaker is speaker) for speaker in _SPEAKERS),
        float(turn.is_opening),
        float(turn.is_chat),
        float(turn.acts),
        math.log1p(len(turn.text)) / 9,
    ]


def _position(turn: Turn, index: int, segment: Segment) -> list[float]:
    num_chars, num_behind = len(turn.text), len(turn.segments) - 1 - index
    return [
        math.log1p(segment.start) / 9,
        math.log1p(max(num_chars - segment.end, 0)) / 9,
        segment.start / max(num_chars, 1),
        math.log1p(index) / 6,
        math.log1p(num_behind) / 6,
        float(index == 0),
        float(num_behind == 0),
    ]


def _enclosing(texts: Sequence[str]) -> list[tuple[float, float]]:
    rows, depth, in_fence = [], 0, False
    for text in texts:
        rows.append((min(depth, _MAX_DEPTH) / _MAX_DEPTH, float(in_fence)))
        if text.count("```") % 2:
            in_fence = not in_fence
        opened = text.count("{") + text.count("[")
        depth = max(0, depth + opened - text.count("}") - text.count("]"))
    return rows


def _part_features(parts: Sequence[Part], segment: Segment) -> list[float]:
    middle = (segment.start + segment.end) // 2
    inside = next((part for part in parts if part.start <= middle < part.end), None)
    others = [part for part in parts if part is not inside]
    return [
        *(float(inside is not None and inside.kind is kind) for kind in PartKind),
        math.log1p(max(segment.start - inside.start, 0)) / 6 if inside else 0.0,
        math.log1p(inside.end - inside.start) / 7 if inside else 0.0,
        float(any(part.end <= segment.start for part in others)),
        float(any(part.end > segment.start for part in others)),
    ]


def _overlaps(piece: set[str], words: _Words) -> list[float]:
    size = max(len(piece), 1)
    asked, opening = piece & words.asked, piece & words.opening
    assistant = piece & words.assistant
    spoken = (word for word in assistant | asked if len(word) >= _LONG_TERM)
    frequency = words.frequency
    return [
        len(asked) / size,
        len(asked) / max(len(words.asked), 1),
        max((1 / frequency[word] for word in asked), default=0.0),
        float(bool(asked)),
        max(map(len, asked), default=0) / 15,
        len(opening) / size,
        max((1 / frequency[word] for word in opening), default=0.0),
        len(assistant) / size,
        max((1 / frequency[word] for word in spoken), default=0.0),
        len(piece & words.user) / size,
        sum(math.log(frequency[word]) for word in piece) / size / 4,
    ]
