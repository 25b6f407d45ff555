"""Digests of traces: of what they say, and with how they are labelled."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from typing import Any

from memdecay.data.schema import trace_to_data
from memdecay.data.trace import Trace

DIGEST_LENGTH = 16


def trace_digest(trace: Trace) -> str:
    """Return 16 hex digits of what the messages say; ids, sources and labels don't count."""
    spoken = [[m.role, m.content, [dict(call) for call in m.tool_calls]] for m in trace.messages]
    return digest(spoken)


def labelled_digest(traces: Iterable[Trace]) -> str:
    """Return 16 hex digits of traces with their labels and all fields, in their order."""
    return digest([digest(trace_to_data(trace)) for trace in traces])


def digest(data: Any) -> str:
    """Return 16 hex digits of plain data."""
    text = json.dumps(data, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:DIGEST_LENGTH]
