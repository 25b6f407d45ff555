"""The marks of one Label Studio annotation, as spans of the message that they lie on."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, TypeGuard

from memdecay.classifier.errors import TraceError
from memdecay.classifier.regions import Region
from memdecay.data.trace import Span

# Label Studio writes a line break in the text of a mark made by hand as a backslash and an n.
_SPACE = re.compile(r"\\n|\s+")


@dataclass(frozen=True, slots=True)
class Marks:
    """What an annotation says about a message.

    Attributes:
        spans: The labelled stretches, without overlaps.
        misplaced: Marks whose text is not what stands at their offsets, however one counts.
    """

    spans: tuple[Span, ...]
    misplaced: int


def read_marks(results: Iterable[Mapping[str, Any]], index: int, text: str, where: str) -> Marks:
    """Read the results of an annotation; where marks overlap, the later one counts.

    Args:
        results: The annotation's ``result``; what is no label, such as a relation, is passed over.
        index: The message.
        text: Its text.
        where: The task in words, for errors.

    Raises:
        TraceError: A mark is out of range or has not one known region.
    """
    regions: list[Region | None] = [None] * len(text)
    misplaced = 0
    for result in results:
        if result.get("type") != "labels":
            continue
        value = result.get("value") or {}
        start, end, fits = _place(value, text, where)
        regions[start:end] = [_region(value, where)] * (end - start)
        misplaced += not fits
    return Marks(tuple(_runs(regions, index)), misplaced)


def _region(value: Mapping[str, Any], where: str) -> Region:
    labels = value.get("labels")
    if not isinstance(labels, list) or len(labels) != 1:
        raise TraceError(f"{where}: a mark has the labels {labels}; expected one region")
    try:
        return Region.from_label(str(labels[0]))
    except ValueError as error:
        raise TraceError(f"{where}: {error}") from error


def _place(value: Mapping[str, Any], text: str, where: str) -> tuple[int, int, bool]:
    """Return a mark's start and end in code points, and whether its text stands there."""
    start, end, marked = value.get("start"), value.get("end"), value.get("text")
    if not _is_count(start) or not _is_count(end) or not 0 <= start < end:
        raise TraceError(f"{where}: a mark goes from {start} to {end}; expected 0 <= start < end")
    if end <= len(text) and (not isinstance(marked, str) or _is_same(text[start:end], marked)):
        return start, end, True
    offsets = _code_points(text)  # Older releases count UTF-16 units.
    if end >= len(offsets):
        raise TraceError(f"{where}: a mark ends at {end}, after the text")
    first, last = offsets[start], offsets[end]
    if not isinstance(marked, str) or _is_same(text[first:last], marked):
        return first, last, True
    return (start, end, False) if end <= len(text) else (first, last, False)


def _is_count(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_same(text: str, marked: str) -> bool:
    """Tell whether two texts are the same but for white space, which browsers change."""
    return text == marked or _SPACE.sub("", text) == _SPACE.sub("", marked)


def _runs(regions: list[Region | None], index: int) -> Iterator[Span]:
    cuts = [place for place in range(1, len(regions)) if regions[place] != regions[place - 1]]
    for start, end in pairwise([0, *cuts, len(regions)]):
        if end > start and (region := regions[start]) is not None:
            yield Span(index, start, end, region)


def _code_points(text: str) -> list[int]:
    """Return the code point at which each UTF-16 unit stands, and the end."""
    if all(char <= "\uffff" for char in text):
        return list(range(len(text) + 1))
    offsets = []
    for position, char in enumerate(text):
        offsets += [position] * (2 if char > "\uffff" else 1)
    return [*offsets, len(text)]
