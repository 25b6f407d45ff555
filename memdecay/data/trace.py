"""Agent traces: messages in OpenAI's chat shape, with or without region labels."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from memdecay.classifier.regions import Region


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a trace.

    Attributes:
        role: The writer as the trace names it (``system``, ``user``, ``assistant``, ``tool`` or
            any other text).
        content: The text; empty where the message only calls tools.
        tool_calls: Structured calls in OpenAI's shape, arguments as the source gave them.
        extra: Further fields of the source (``name``, ``tool_call_id``, ...), kept for writing.
    """

    role: str
    content: str = ""
    tool_calls: tuple[Mapping[str, Any], ...] = ()
    extra: tuple[tuple[str, Any], ...] = ()

    def to_openai(self) -> dict[str, Any]:
        """Return the message as an OpenAI chat message."""
        message: dict[str, Any] = {"role": self.role, "content": self.content}
        if self.tool_calls:
            message["tool_calls"] = [dict(call) for call in self.tool_calls]
        return message | dict(self.extra)


@dataclass(frozen=True, slots=True)
class Span:
    """A labelled stretch of one message: characters ``start`` to ``end`` (exclusive)."""

    message: int
    start: int
    end: int
    region: Region


@dataclass(frozen=True, slots=True)
class Trace:
    """One agent run.

    Attributes:
        id: Unique within a file.
        source: Where the run comes from; empty when unknown.
        messages: The conversation in order, at least one.
        spans: Region labels, sorted by message and start, without overlaps; empty if unlabelled.
        extra: Further fields of the source (``task_id``, ``meta``, ``tools``, ...).
    """

    id: str
    messages: tuple[Message, ...]
    source: str = ""
    spans: tuple[Span, ...] = ()
    extra: tuple[tuple[str, Any], ...] = ()

    @property
    def num_characters(self) -> int:
        """Characters of content over all messages."""
        return sum(len(message.content) for message in self.messages)

    @property
    def task_id(self) -> str:
        """The task this run tries to solve, the key by which traces are split; else its id."""
        return str(dict(self.extra).get("task_id") or self.id)
