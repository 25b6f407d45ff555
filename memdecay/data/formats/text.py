"""Hostile characters: NUL, ANSI codes, lone surrogates and base64 blobs."""

from __future__ import annotations

import re

from memdecay.data.formats.report import Notes

_ANSI = re.compile(
    r"\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)"  # OSC: window titles, hyperlinks
    r"|(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"  # CSI: colours, cursor moves
    r"|\x1b[PX^_][^\x1b]*\x1b\\"  # DCS, SOS, PM, APC strings
    r"|\x1b[ -/]*[0-~]"  # two-character codes
    r"|\x1b"  # a code cut off at the end
)
_SURROGATE = re.compile("[\ud800-\udfff]")
_SURROGATE_PAIR = re.compile("[\ud800-\udbff][\udc00-\udfff]")
_BASE64 = re.compile(r"[A-Za-z0-9+/]{400,}={0,2}")


def clean_text(text: str, notes: Notes) -> str:
    """Remove what no tokenizer or file should meet; count it in ``notes``.

    NUL characters and ANSI codes go, surrogate halves that belong together are joined, and lone
    ones become U+FFFD. Base64 blobs stay and are counted.
    """
    if "\0" in text:
        notes.repair("NUL character removed", text.count("\0"))
        text = text.replace("\0", "")
    if "\x1b" in text or "\x9b" in text:
        text, count = _ANSI.subn("", text)
        notes.repair("ANSI code removed", count)
    if _SURROGATE.search(text):
        text = _mend_surrogates(text, notes)
    if len(text) >= 400:
        notes.notice("base64 blob kept", sum(1 for blob in _BASE64.finditer(text) if _mixed(blob)))
    return text


def _mend_surrogates(text: str, notes: Notes) -> str:
    pairs = len(_SURROGATE_PAIR.findall(text))
    lone = len(_SURROGATE.findall(text)) - 2 * pairs
    notes.repair("surrogate pair joined", pairs)
    notes.repair("lone surrogate replaced", lone)
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _mixed(blob: re.Match[str]) -> bool:
    """Tell a blob from a ruler or a long run of one letter."""
    return len(set(blob.group()[:400])) > 16
