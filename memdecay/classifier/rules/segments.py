"""Text cut into the small pieces that rules vote on."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import pairwise

MAX_LINE_CHARS = 220
MIN_PIECE_CHARS = 80

_SENTENCE_END = re.compile(
    r"[.!?;][\"')\]}]*\s+|[\u3002\uff01\uff1f\uff1b]|</\w+>\s*|\}, |\], |, (?=\")"
)


@dataclass(frozen=True, slots=True)
class Segment:
    """Characters ``start`` to ``end`` (exclusive) of one message."""

    start: int
    end: int


def split_segments(text: str) -> tuple[Segment, ...]:
    r"""Cut text into lines, and long lines at sentence or record ends.

    Blank lines belong to the line before them, so the segments cover the text without gaps. A long
    line without any such end is cut every `MAX_LINE_CHARS` characters.

    >>> [(piece.start, piece.end) for piece in split_segments("one\n\ntwo")]
    [(0, 5), (5, 8)]
    """
    segments: list[Segment] = []
    start = 0
    position = 0
    for line in text.splitlines(keepends=True):
        position += len(line)
        if not line.strip() and segments:
            segments[-1] = Segment(segments[-1].start, position)
            start = position
        elif line.strip():
            segments.extend(_split_line(text, start, position))
            start = position
    if start < len(text):
        segments.append(Segment(start, len(text)))
    return tuple(segments)


def _split_line(text: str, start: int, end: int) -> list[Segment]:
    if end - start <= MAX_LINE_CHARS:
        return [Segment(start, end)]
    pieces = []
    for match in _SENTENCE_END.finditer(text, start, end):
        cut = match.end()
        if cut - start < MIN_PIECE_CHARS or cut >= end:
            continue
        pieces.extend(_split_evenly(start, cut))
        start = cut
    return [*pieces, *_split_evenly(start, end)]


def _split_evenly(start: int, end: int) -> list[Segment]:
    if end - start <= 2 * MAX_LINE_CHARS:
        return [Segment(start, end)]
    cuts = [*range(start, end, MAX_LINE_CHARS), end]
    return [Segment(a, b) for a, b in pairwise(cuts)]
