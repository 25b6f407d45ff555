"""Text of traces made safe to look at: nothing in it steers what shows it."""

from __future__ import annotations

import html
import re
import unicodedata

# Control, format (bidi marks, zero-width signs), lone surrogate, private, unassigned; separators.
_HIDDEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
_LAYOUT = "\n\t"
_MARKS = frozenset({"Mn", "Me"})
_MAX_MARKS = 3
# Marks anywhere, and what makes a heading, a list or a quotation at the beginning.
_MARKDOWN = re.compile(r"([\\`*_\[\]|~]|^[#+=>-]|(?<=^\d)[.)])")


def visible(text: str) -> str:
    r"""Return the text with each sign that is not seen replaced by one that is.

    Control characters become their pictures, others their code in brackets. Line breaks and tabs
    stay. Of a pile of combining marks three are left: more would paint over their neighbours.

    >>> visible("red\x1b[31m \u202egnp")
    'red\u241b[31m \u27e8U+202E\u27e9gnp'
    """
    shown: list[str] = []
    num_marks = 0
    for character in text:
        num_marks = num_marks + 1 if unicodedata.category(character) in _MARKS else 0
        if num_marks <= _MAX_MARKS:
            shown.append(_shown(character))
    return "".join(shown)


def shortened(text: str, max_characters: int) -> str:
    """Return a text of at most about ``max_characters``, its middle left out if need be.

    Raises:
        ValueError: max_characters is below 2.
    """
    if max_characters < 2:
        raise ValueError(f"max_characters must be 2 or above, got {max_characters}")
    if len(text) <= max_characters:
        return text
    head = max_characters * 2 // 3
    tail = max_characters - head
    return f"{text[:head]} … [{len(text) - max_characters:,} characters] … {text[-tail:]}"


def in_markdown(text: str) -> str:
    """Return one line of Markdown that shows a text as it is, whatever it holds."""
    line = " ".join(visible(text).split())
    return _MARKDOWN.sub(r"\\\1", html.escape(line, quote=False))


def _shown(character: str) -> str:
    if character in _LAYOUT or unicodedata.category(character) not in _HIDDEN:
        return character
    code = ord(character)
    if code < 0x20:
        return chr(0x2400 + code)
    return "\u2421" if code == 0x7F else f"\u27e8U+{code:04X}\u27e9"
