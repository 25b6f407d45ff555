"""The text features of one message, piece by piece."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from memdecay.classifier.rules.conversation import Speaker, Turn
from memdecay.classifier.rules.growing import last_of
from memdecay.classifier.rules.registry import DEFAULT_RULES
from memdecay.classifier.rules.vote import SegmentGrid
from memdecay.classifier.text.lines import line_features
from memdecay.classifier.text.names import NUM_TEXT_FEATURES
from memdecay.classifier.text.places import Before, place_features

_KEPT_MESSAGES = 1024


@lru_cache(maxsize=_KEPT_MESSAGES)
def turn_features(turn: Turn, before: Before, speakers: tuple[Speaker, ...]) -> NDArray[np.float32]:
    """Return the features of each piece of a message's content.

    The result is kept for as long as messages come again and again, as they do when a conversation
    grows.

    Args:
        turn: The message.
        before: What was said before it.
        speakers: Who has spoken before it, each once, in the order of their first messages.

    Returns:
        ``(num_segments, NUM_TEXT_FEATURES)``, float32, read-only.
    """
    features = np.zeros((len(turn.segments), NUM_TEXT_FEATURES), np.float32)
    if len(features):
        places = np.array(place_features(turn, before), np.float32)
        lines = np.array(
            [line_features(turn.segment_text(segment)) for segment in turn.segments], np.float32
        )
        # The last column, of structured calls, is none of a content's.
        features[:, :-1] = np.hstack([_rule_features(turn, speakers), places, lines])
    # Stores and sessions keep them as float16; this way all see the same numbers.
    features = features.astype(np.float16).astype(np.float32)
    features.flags.writeable = False
    return features


def _rule_features(turn: Turn, speakers: Iterable[Speaker]) -> NDArray[np.float32]:
    votes = SegmentGrid(last_of(turn, speakers)).ask(DEFAULT_RULES)
    return np.hstack([votes.sum(axis=0), votes.sum(axis=2).T])
