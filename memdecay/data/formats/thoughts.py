"""The reasoning of a message, which every vendor keeps under other names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from memdecay.data.formats.content import content_text
from memdecay.data.formats.report import Notes
from memdecay.data.formats.values import as_list, as_map, first_str

_TEXT_KEYS = ("thinking", "reasoning", "text", "value", "content")
# The first three hold the whole reasoning; the others hold it in blocks, with the signatures.
_WHOLE = ("reasoning_content", "reasoning", "thinking")
_IN_BLOCKS = ("thinking_blocks", "reasoning_details")
THOUGHT_KEYS = (*_WHOLE, *_IN_BLOCKS)


def thoughts_of(raw: Mapping[str, Any], notes: Notes) -> list[str]:
    """Return the texts of the reasoning that stands beside a message's content."""
    whole = [_whole(raw.get(key), notes) for key in _WHOLE]
    found = [text for text in dict.fromkeys(whole) if text]
    blocks = [block for key in _IN_BLOCKS for block in as_list(raw.get(key))]
    if found or not blocks:
        return found
    return [text for block in blocks if (text := thought_of(as_map(block), notes))]


def thought_of(block: Mapping[str, Any], notes: Notes) -> str:
    """Return the text of a reasoning block; none (noted) if it is encrypted.

    Of a redacted block the summary is all that can be read.
    """
    text = "" if block.get("redacted") is True else first_str(block, _TEXT_KEYS)
    text = text or content_text(block.get("summary") or as_list(block.get("content")), notes)
    if not text:
        notes.skip("encrypted reasoning")
    return text


def _whole(value: object, notes: Notes) -> str:
    if isinstance(value, Mapping):
        return thought_of(value, notes)
    return content_text(value, notes) if isinstance(value, str | list) else ""
