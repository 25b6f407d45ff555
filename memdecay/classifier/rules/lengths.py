"""How long a tool's result is, and what counts as short."""

from __future__ import annotations

from memdecay.classifier.rules.conversation import Turn
from memdecay.classifier.rules.scaffold import boilerplate_chars

SHORT_RESULT_CHARS = 260


def is_long(turn: Turn) -> bool:
    """Tell whether a result is more than one or two lines."""
    return len(turn.text) > SHORT_RESULT_CHARS


def body_chars(turn: Turn) -> int:
    """Return how many characters a result has without the scaffold's own lines."""
    if not is_long(turn) or len(turn.text) > 4 * SHORT_RESULT_CHARS:
        return len(turn.text)
    return len(turn.text) - boilerplate_chars(turn)
