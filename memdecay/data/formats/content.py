"""Message content of any type, as text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from memdecay.data.formats.leftovers import has_leftovers, note_leftovers
from memdecay.data.formats.report import Notes
from memdecay.data.formats.values import MAX_DEPTH, dump_json

TEXT_KEYS = ("text", "value", "content", "output_text", "refusal", "transcript")
_BESIDE_TEXT = ("id", "isError", "is_error", "cache_control", "_meta", "thoughtSignature")
MEDIA = {
    "image": "image",
    "image_url": "image",
    "input_image": "image",
    "computer_screenshot": "image",
    "input_audio": "audio",
    "audio": "audio",
    "output_audio": "audio",
    "video": "video",
    "input_file": "file",
    "file": "file",
    "document": "file",
}


def content_text(value: object, notes: Notes, depth: int = 0) -> str:
    """Return the text of a message's content.

    Args:
        value: None, a string, a list of blocks (text under ``text``, ``value`` or ``content``), a
            mapping, a number or a truth value.
        notes: Counts the media that leave only a mark such as ``[image]``.
        depth: How deep this value is nested; below ``MAX_DEPTH`` nothing is read any more.

    Returns:
        The text. Blocks are joined by line breaks; a mapping without text becomes JSON.
    """
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    if depth >= MAX_DEPTH:
        notes.skip("content nested too deeply")
        return ""
    if isinstance(value, list):
        pieces = [content_text(item, notes, depth + 1) for item in value]
        return "\n".join(piece for piece in pieces if piece)
    if isinstance(value, Mapping):
        return _block_text(value, notes, depth)
    return dump_json(value)


def _block_text(block: Mapping[str, Any], notes: Notes, depth: int) -> str:
    kind = block.get("type")
    is_typed = isinstance(kind, str)
    medium = MEDIA.get(kind) if isinstance(kind, str) else None
    spoken = next((key for key in ("text", "transcript") if isinstance(block.get(key), str)), "")
    if medium and not spoken:
        notes.skip(f"{medium} left out, marked [{medium}]")
        return f"[{medium}]"
    # Without a type, other keys beside the text would be lost: such a mapping is data.
    keys = [
        key
        for key in TEXT_KEYS
        if isinstance(block.get(key), str | list | Mapping)
        and (is_typed or set(block) <= {key, *_BESIDE_TEXT})
    ]
    if not keys:
        return dump_json(block)
    key = next((key for key in keys if block[key]), keys[0])
    if not block[key]:
        # What a program printed may stand beside an empty list of the files that it wrote.
        return dump_json(block) if has_leftovers(block, TEXT_KEYS) else ""
    text = content_text(block[key], notes, depth + 1)
    note_leftovers(block, {key, *_BESIDE_TEXT}, notes, f"{kind} block", [text])
    return text
