"""What the classifier reads beside the hidden state: where a token stands and who wrote it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

ROLES = ("system", "user", "assistant", "tool", "other")
UNKNOWN_ROLE = -1
"""The role code of tokens that no message holds; their role features are all zero."""

_ALIASES = {
    "developer": "system",
    "human": "user",
    "ai": "assistant",
    "bot": "assistant",
    "chatgpt": "assistant",
    "gemini": "assistant",
    "gpt": "assistant",
    "model": "assistant",
    "function": "tool",
    "function_response": "tool",
    "ipython": "tool",
    "observation": "tool",
    "tool_response": "tool",
    "toolresult": "tool",
}

POSITION_FEATURE_NAMES = (
    "log_position",
    "log_position_in_message",
    "log_message_index",
    *(f"role_{role}" for role in ROLES),
)
NUM_POSITION_FEATURES = len(POSITION_FEATURE_NAMES)

POSITION_SCALES = (float(np.log1p(2**17)), float(np.log1p(2**14)), float(np.log1p(2**10)))
"""Divisors of the logarithms: 128k tokens, 16k tokens in a message and 1k messages map to 1."""

FEATURE_FORMAT = 1


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


def role_code(role: str) -> int:
    """Return the index in `ROLES` of a message's role, whatever its spelling.

    Free names are ``other``; an empty role is `UNKNOWN_ROLE`.

    >>> role_code("human"), role_code("toolResult"), role_code("get_weather")
    (1, 3, 4)
    """
    name = role.strip().lower()
    if not name:
        return UNKNOWN_ROLE
    name = _ALIASES.get(name, name)
    return ROLES.index(name) if name in ROLES else ROLES.index("other")


def position_features(
    position: ArrayLike,
    position_in_message: ArrayLike,
    message_index: ArrayLike,
    role: ArrayLike,
) -> NDArray[np.float32]:
    """Return the position features of some tokens.

    The three counts go through ``log(1 + count)`` and are divided by `POSITION_SCALES`, so that
    they lie about in 0 to 1 (a longer context goes a little above 1); the role is one-hot. A
    token's features depend on nothing but its own numbers, so new tokens can be done alone.

    Args:
        position: ``(n,)`` integers; tokens before this one in the conversation.
        position_in_message: ``(n,)`` integers; tokens before this one in its message.
        message_index: ``(n,)`` integers; messages before its own. Below zero (no message) counts
            as zero.
        role: ``(n,)`` integers; see `role_code`. `UNKNOWN_ROLE` gives zeros.

    Returns:
        ``(n, NUM_POSITION_FEATURES)``, float32.

    Raises:
        ValueError: The arrays are not of one length, or a role code is out of range.
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
    features[:, len(counts) :] = roles[:, None] == np.arange(len(ROLES))
    return features


def _almost_equal(left: tuple[float, ...], right: tuple[float, ...]) -> bool:
    return len(left) == len(right) and bool(np.allclose(left, right))
