"""Building a labelled trace from pieces of text whose region is known when they are written."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from memdecay.classifier.regions import Region
from memdecay.data.trace import Message, Span, Trace


@dataclass(frozen=True, slots=True)
class Piece:
    """A stretch of text and the region it belongs to."""

    text: str
    region: Region


def instruction(text: str) -> Piece:
    """Label text that holds for the whole run."""
    return Piece(text, Region.SYSTEM_INSTRUCTION)


def decision(text: str) -> Piece:
    """Label text that later steps build on."""
    return Piece(text, Region.KEY_DECISION)


def finding(text: str) -> Piece:
    """Label a call, or the part of its result that the call was made for."""
    return Piece(text, Region.TOOL_SUMMARY)


def dialogue(text: str) -> Piece:
    """Label conversation that fixes nothing."""
    return Piece(text, Region.RECENT_DIALOGUE)


def context(text: str) -> Piece:
    """Label bulk that nobody would miss."""
    return Piece(text, Region.ORDINARY_CONTEXT)


def surround(pieces: Iterable[Piece], prefix: str = "", suffix: str = "") -> tuple[Piece, ...]:
    """Put text around pieces; it takes the region of the piece it touches.

    Raises:
        ValueError: There is no piece to put text around.
    """
    inner = list(pieces)
    if not inner:
        raise ValueError("expected at least one piece to put text around, got none")
    inner[0] = Piece(prefix + inner[0].text, inner[0].region)
    inner[-1] = Piece(inner[-1].text + suffix, inner[-1].region)
    return tuple(inner)


class TraceBuilder:
    """Collects messages and records the spans of their pieces."""

    def __init__(self) -> None:
        self._messages: list[Message] = []
        self._spans: list[Span] = []

    def add(
        self,
        role: str,
        *pieces: Piece,
        tool_calls: Iterable[Mapping[str, Any]] = (),
        **extra: Any,
    ) -> None:
        """Append a message made of pieces.

        Neighbouring pieces of one region become one span. A blank piece joins the piece before it.

        Args:
            role: Role of the message.
            pieces: Labelled text in order; empty pieces are left out.
            tool_calls: Structured calls; they carry no span.
            extra: Further fields of the message, such as ``name``.

        Raises:
            ValueError: The message starts with a blank piece, or has neither text nor calls.
        """
        calls = tuple(tool_calls)
        kept = [piece for piece in pieces if piece.text]
        if not kept and not calls:
            raise ValueError(f"expected text or tool calls in the {role} message, got neither")
        if kept and not kept[0].text.strip():
            raise ValueError(f"expected the {role} message to start with text, got a blank piece")
        self._record_spans(kept)
        content = "".join(piece.text for piece in kept)
        self._messages.append(Message(role, content, calls, tuple(extra.items())))

    def build(self, trace_id: str, source: str, **extra: Any) -> Trace:
        """Return the trace collected so far.

        Raises:
            ValueError: No message was added.
        """
        if not self._messages:
            raise ValueError("expected at least one message before build, got none")
        return Trace(
            trace_id, tuple(self._messages), source, tuple(self._spans), tuple(extra.items())
        )

    @property
    def num_characters(self) -> int:
        """Characters of content so far."""
        return sum(len(message.content) for message in self._messages)

    def _record_spans(self, pieces: list[Piece]) -> None:
        index, end, spans = len(self._messages), 0, list[Span]()
        for piece in pieces:
            start, end = end, end + len(piece.text)
            region = piece.region if piece.text.strip() else spans[-1].region
            if spans and spans[-1].region is region:
                spans[-1] = Span(index, spans[-1].start, end, region)
            else:
                spans.append(Span(index, start, end, region))
        self._spans.extend(spans)
