"""Find each message's characters in a rendered conversation.

A template is rendered once with a placeholder instead of every content; what stands between the
placeholders is the template's own text. Putting the contents between these pieces tells where each
of them lies, without searching for it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

_OPEN, _CLOSE = "\uf8f0\ue0d1", "\ue0d2\uf8f1"
_PLACEHOLDER = re.compile(f"{_OPEN}([0-9]+){_CLOSE}")


@dataclass(frozen=True, slots=True)
class Body:
    """What one message puts into the text.

    Attributes:
        content: The content.
        calls: Tool calls written behind the content by us; empty if the template writes them.
        has_native_calls: Whether the template writes tool calls for this message.
    """

    content: str
    calls: str = ""
    has_native_calls: bool = False

    @property
    def text(self) -> str:
        """Content and calls."""
        return self.content + self.calls

    @property
    def is_only_native_calls(self) -> bool:
        """Whether the placeholder stands in the name of the first call, the content being empty."""
        return self.has_native_calls and not self.content


@dataclass(frozen=True, slots=True)
class Place:
    """Character ranges of one message; see `memdecay.classifier.rendering.RenderedMessage`."""

    start: int
    end: int
    content_start: int
    content_end: int
    calls_start: int
    calls_end: int
    content_skip: int


@dataclass(frozen=True, slots=True)
class PlacedText:
    """A rendered conversation, the place of every message and the generation prompt after it."""

    text: str
    places: tuple[Place, ...]
    generation_prompt: str = ""


@dataclass(frozen=True, slots=True)
class Frame:
    """The template's text before, between and after ``n`` contents.

    Attributes:
        pieces: ``n + 1`` texts.
    """

    pieces: tuple[str, ...]

    @classmethod
    def parse(cls, rendering: str, num_messages: int) -> Frame | None:
        """Cut a rendering of placeholders; None if one of them is missing or out of order."""
        parts = _PLACEHOLDER.split(rendering)
        if parts[1::2] != [str(index) for index in range(num_messages)]:
            return None
        return cls(tuple(parts[::2]))


def placeholder(index: int) -> str:
    """Return the text that stands for the content of this message."""
    return f"{_OPEN}{index}{_CLOSE}"


def place(text: str, plain: Frame, frame: Frame, bodies: Sequence[Body]) -> PlacedText:
    """Find the messages in a rendering.

    Args:
        text: The rendering of the real messages. If it is not made of the frame and the contents
            (trimmed of white space or not), they are put together and used instead.
        plain: Frame of the same messages without tool calls.
        frame: Frame of the messages with their native tool calls.
        bodies: What each message puts in.
    """
    spans = _match(text, frame.pieces, [body.text for body in bodies])
    if spans is None:
        text, spans = _splice(frame.pieces, [body.text for body in bodies])
    prefixes, suffixes = _affixes(plain.pieces)
    starts = [spans[0].start - _head_length(frame.pieces[0], prefixes[0], bodies[0], suffixes[-1])]
    for index in range(1, len(bodies)):
        gap = frame.pieces[index]
        cut = _cut(gap, suffixes[index - 1], prefixes[index], bodies[index])
        starts.append(spans[index - 1].end + cut)
    ends = [*starts[1:], len(text)]
    places = (
        _place(text, body, span, start, end, prefix, suffix)
        for body, span, start, end, prefix, suffix in zip(
            bodies, spans, starts, ends, prefixes, suffixes, strict=True
        )
    )
    return PlacedText(text, tuple(places))


@dataclass(frozen=True, slots=True)
class _Span:
    """Where a body lies in the text, and how many of its first characters were trimmed."""

    start: int
    end: int
    skip: int


def _match(text: str, pieces: Sequence[str], contents: Sequence[str]) -> list[_Span] | None:
    """Walk along the text, piece by content by piece; None where it does not fit."""
    if not text.startswith(pieces[0]):
        return None
    position = len(pieces[0])
    spans = []
    for content, piece in zip(contents, pieces[1:], strict=True):
        for variant, skip in _trimmings(content):
            end = position + len(variant)
            if text.startswith(variant, position) and text.startswith(piece, end):
                spans.append(_Span(position, end, skip))
                position = end + len(piece)
                break
        else:
            return None
    return spans if position == len(text) else None


def _trimmings(content: str) -> Iterator[tuple[str, int]]:
    """Yield what a template may leave of a content, and how much it cuts off at the beginning."""
    yield content, 0
    yield content.rstrip(), 0
    trimmed = content.lstrip()
    skip = len(content) - len(trimmed)
    yield trimmed, skip
    yield trimmed.rstrip(), skip


def _shared(left: str, right: str) -> int:
    """Return the length of the longest common beginning."""
    pairs = enumerate(zip(left, right, strict=False))
    return next((i for i, (a, b) in pairs if a != b), min(len(left), len(right)))


def _splice(pieces: Sequence[str], contents: Sequence[str]) -> tuple[str, list[_Span]]:
    position = len(pieces[0])
    parts = [pieces[0]]
    spans = []
    for content, piece in zip(contents, pieces[1:], strict=True):
        spans.append(_Span(position, position + len(content), 0))
        parts += [content, piece]
        position += len(content) + len(piece)
    return "".join(parts), spans


def _affixes(pieces: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the text before and after each content that belongs to its message.

    What follows the last content is the end of a message; a gap between two contents begins with
    as much of it as they share.
    """
    last_suffix = pieces[-1]
    head = pieces[0]
    cut = head.rfind(last_suffix) + len(last_suffix) if last_suffix in head else 0
    prefixes, suffixes = [head[cut:] if last_suffix else head], []
    for gap in pieces[1:-1]:
        suffix = gap[: _shared(gap, last_suffix)]
        suffixes.append(suffix)
        prefixes.append(gap[len(suffix) :])
    return prefixes, [*suffixes, last_suffix]


def _head_length(head: str, prefix: str, body: Body, suffix: str) -> int:
    """Return how much of the text before the first placeholder belongs to the first message."""
    return len(head) - _cut(head, suffix, prefix, body)


def _cut(gap: str, suffix: str, prefix: str, body: Body) -> int:
    """Return where in a gap the message before it ends and the one with this prefix begins."""
    if gap.endswith(prefix) and not body.is_only_native_calls:
        return len(gap) - len(prefix)
    return gap.rfind(suffix) + len(suffix) if suffix in gap else 0


def _place(
    text: str, body: Body, span: _Span, start: int, end: int, prefix: str, suffix: str
) -> Place:
    if body.is_only_native_calls:
        # The placeholder stood inside the call, so the empty content is behind the prefix.
        content_start = start + _shared(text[start : span.end], prefix)
        content_end = content_start
    else:
        content_start = span.start
        kept = len(body.content) - span.skip
        content_end = span.start + min(max(kept, 0), span.end - span.start)
    if body.has_native_calls:
        calls_end = max(content_end, end - (len(suffix) if text.endswith(suffix, 0, end) else 0))
    else:
        calls_end = span.end if body.calls else content_end
    return Place(start, end, content_start, content_end, content_end, calls_end, span.skip)
