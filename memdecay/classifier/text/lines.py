"""Features of one piece of text by itself: what kind of line it is and what it is made of."""

from __future__ import annotations

import math

from memdecay.classifier.text.patterns import COUNTED_WORDS, LINE_STARTS, WORDS

MAX_CHARS = 400
"""Characters of a piece that are looked at; pieces are rarely longer."""

LINE_FEATURE_NAMES = (
    *LINE_STARTS,
    *COUNTED_WORDS,
    *WORDS,
    "share_digits",
    "share_upper",
    "share_letters",
    "share_spaces",
    "share_signs",
    "share_quotes",
    "share_brackets",
    "share_non_ascii",
    "log_chars",
    "log_words",
    "word_chars",
    "indent",
    "ends_with_question",
    "ends_with_colon",
    "ends_with_stop",
    "ends_with_code_sign",
    "has_question",
    "starts_upper",
    "starts_lower",
    "ends_paragraph",
    "ends_line",
)

_MAX_COUNT = 3
_MAX_INDENT = 20
_MAX_WORD_CHARS = 30


def line_features(text: str) -> list[float]:
    """Return the features of a piece, in the order of `LINE_FEATURE_NAMES`, each about 0 to 1."""
    text = text[:MAX_CHARS]
    features = [float(pattern.match(text) is not None) for pattern in LINE_STARTS.values()]
    counts = (len(pattern.findall(text)) for pattern in COUNTED_WORDS.values())
    features += [min(count, _MAX_COUNT) / _MAX_COUNT for count in counts]
    features += [float(pattern.search(text) is not None) for pattern in WORDS.values()]
    stripped = text.strip()
    features += _shares(stripped)
    features += _sizes(text, stripped)
    features += [
        float(stripped.endswith(("?", "\uff1f"))),
        float(stripped.endswith(":")),
        float(stripped.endswith((".", "!", "\u3002"))),
        float(stripped.endswith((";", ",", "{", "}", "(", ")", "[", "]"))),
        float("?" in stripped),
        float(stripped[:1].isupper()),
        float(stripped[:1].islower()),
        float(text.endswith("\n\n")),
        float(text.endswith("\n")),
    ]
    return features


def _shares(text: str) -> list[float]:
    length = max(len(text), 1)
    counts = (
        sum(map(str.isdigit, text)),
        sum(map(str.isupper, text)),
        sum(map(str.isalpha, text)),
        text.count(" "),
        len(text) - sum(map(str.isalnum, text)) - sum(map(str.isspace, text)),
        text.count('"') + text.count("'"),
        sum(map(text.count, "{}[]()<>")),
        0 if text.isascii() else sum(ord(char) > 127 for char in text),
    )
    return [count / length for count in counts]


def _sizes(text: str, stripped: str) -> list[float]:
    num_words = len(stripped.split())
    indent = len(text) - len(text.lstrip()) if stripped else 0
    return [
        math.log1p(len(text)) / 6,
        math.log1p(num_words) / 5,
        min(len(stripped) / max(num_words, 1), _MAX_WORD_CHARS) / 15,
        min(indent, _MAX_INDENT) / _MAX_INDENT,
    ]
