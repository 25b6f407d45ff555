"""What the classifier reads beside the hidden state: a token's place, its role and its text."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from memdecay.classifier.roles import ROLES, UNKNOWN_ROLE, role_code
from memdecay.classifier.text.names import (
    NUM_TEXT_FEATURES,
    RULE_SCORES_START,
    TEXT_FEATURE_NAMES,
)

__all__ = [
    "FEATURE_FORMAT",
    "NUM_POSITION_FEATURES",
    "POSITION_FEATURE_NAMES",
    "POSITION_SCALES",
    "ROLES",
    "RULE_SCORES_COLUMN",
    "UNKNOWN_ROLE",
    "FeatureLayout",
    "position_features",
    "role_code",
]

_PLACE_NAMES = (
    "log_position",
    "log_position_in_message",
    "log_message_index",
    *(f"role_{role}" for role in ROLES),
)
POSITION_FEATURE_NAMES = (*_PLACE_NAMES, *TEXT_FEATURE_NAMES)
NUM_POSITION_FEATURES = len(POSITION_FEATURE_NAMES)

RULE_SCORES_COLUMN = len(_PLACE_NAMES) + RULE_SCORES_START
"""Where the rules' scores of the regions begin among the position features."""

POSITION_SCALES = (float(np.log1p(2**17)), float(np.log1p(2**14)), float(np.log1p(2**10)))
"""Divisors of the logarithms: 128k tokens, 16k tokens in a message and 1k messages map to 1."""

FEATURE_FORMAT = 4
"""3 since the rules tell plain chats and logs of several agents apart."""


@dataclass(frozen=True, slots=True)
class FeatureLayout:
    """What a classifier was trained to read; part of its card.

    Attributes:
        layer: Index of the decoder layer whose output is read, 0 for the first.
        hidden_size: Width of that output.
        position_names: Names of the position features, in order.
        position_scales: Divisors of the first features, the logarithms.
        format: Version of how `position_features` computes them.
    """

    layer: int
    hidden_size: int
    position_names: tuple[str, ...] = POSITION_FEATURE_NAMES
    position_scales: tuple[float, ...] = POSITION_SCALES
    format: int = FEATURE_FORMAT

    def __post_init__(self) -> None:
        """Check that this version of memdecay computes these features.

        Raises:
            ValueError: A size is out of range, or the position features are other ones.
        """
        if self.layer < 0:
            raise ValueError(f"layer must be 0 or above, got {self.layer}")
        if self.hidden_size < 1:
            raise ValueError(f"hidden_size must be 1 or above, got {self.hidden_size}")
        if self.format != FEATURE_FORMAT:
            raise ValueError(f"format must be {FEATURE_FORMAT}, got {self.format}")
        if self.position_names != POSITION_FEATURE_NAMES:
            raise ValueError(
                f"position_names must be {POSITION_FEATURE_NAMES}, got {self.position_names}"
            )
        if not _almost_equal(self.position_scales, POSITION_SCALES):
            raise ValueError(
                f"position_scales must be {POSITION_SCALES}, got {self.position_scales}"
            )

    @property
    def num_position_features(self) -> int:
        """Width of the position features."""
        return len(self.position_names)


def position_features(
    position: ArrayLike,
    position_in_message: ArrayLike,
    message_index: ArrayLike,
    role: ArrayLike,
    text: NDArray[np.floating[Any]] | None = None,
) -> NDArray[np.float32]:
    """Return the position features of some tokens.

    The three counts go through ``log(1 + count)`` and are divided by `POSITION_SCALES`, so that
    they lie about in 0 to 1 (a longer context goes a little above 1); the role is one-hot; the text
    features follow as they are. A token's features depend on nothing but its own numbers, so new
    tokens can be done alone.

    Args:
        position: ``(n,)`` integers; tokens before this one in the conversation.
        position_in_message: ``(n,)`` integers; tokens before this one in its message.
        message_index: ``(n,)`` integers; messages before its own. Below zero (no message) counts
            as zero.
        role: ``(n,)`` integers; see `role_code`. `UNKNOWN_ROLE` gives zeros.
        text: ``(n, NUM_TEXT_FEATURES)``; see `memdecay.classifier.text`. None, for tokens of which
            the text is not known, gives zeros.

    Returns:
        ``(n, NUM_POSITION_FEATURES)``, float32.

    Raises:
        ValueError: The arrays are not of one length, the text features have another width, or a
            role code is out of range.
    """
    counts = [np.asarray(count) for count in (position, position_in_message, message_index)]
    roles = np.asarray(role)
    shape = roles.shape
    if len(shape) != 1 or any(count.shape != shape for count in counts):
        raise ValueError(
            "position, position_in_message, message_index and role must be (n,) of one length, "
            f"got {[count.shape for count in counts]} and {shape}"
        )
    if roles.size and not (roles.min() >= UNKNOWN_ROLE and roles.max() < len(ROLES)):
        raise ValueError(f"role codes must lie in {UNKNOWN_ROLE} to {len(ROLES) - 1}")
    features = np.zeros((roles.size, NUM_POSITION_FEATURES), np.float32)
    for column, (count, scale) in enumerate(zip(counts, POSITION_SCALES, strict=True)):
        features[:, column] = np.log1p(np.maximum(count, 0)) / scale
    features[:, len(counts) : len(_PLACE_NAMES)] = roles[:, None] == np.arange(len(ROLES))
    if text is not None:
        if text.shape != (roles.size, NUM_TEXT_FEATURES):
            raise ValueError(
                f"text must be {(roles.size, NUM_TEXT_FEATURES)}, got {tuple(text.shape)}"
            )
        features[:, len(_PLACE_NAMES) :] = text
    return features


def _almost_equal(left: tuple[float, ...], right: tuple[float, ...]) -> bool:
    return len(left) == len(right) and bool(np.allclose(left, right))
