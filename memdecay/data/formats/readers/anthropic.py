"""Anthropic messages: content blocks, with the system prompt beside them."""

from __future__ import annotations

from memdecay.data.formats.base import LIKELY, NO, Format
from memdecay.data.formats.readers import openai_chat
from memdecay.data.formats.sample import Sample
from memdecay.data.formats.values import as_map, as_str, maps

_BLOCKS = {"tool_use", "tool_result", "thinking", "redacted_thinking", "server_tool_use"}


def score(sample: Sample) -> int:
    """Tell message lists with Anthropic's blocks."""
    for record in sample.records():
        listed = [*maps(record.get("messages")), *([record] if "role" in record else [])]
        request = as_map(record.get("request") or record.get("body"))
        listed += list(maps(request.get("messages")))
        kinds = {as_str(block.get("type")) for raw in listed for block in maps(raw.get("content"))}
        if kinds & _BLOCKS:
            return LIKELY
    return NO


# The chat reader knows the blocks and the system prompt; only the name differs.
FORMAT = Format("anthropic", "Anthropic messages", score, openai_chat.read, merges=True)
