"""What each token is expected to be of use for, and for how long."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from memdecay.classifier.region_settings import RegionSettings
from memdecay.retention.spans import RegionSpan, token_regions

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class ScoreConfig:
    """How a score is put together.

    Attributes:
        settings: Initial score, decay and weight of every region.
        prior_weight: Exponent of the decayed score; what the settings name wins.
        attention_floor: What a token without any attention scores, as a share of the mean.
    """

    settings: RegionSettings
    prior_weight: float = 1.0
    attention_floor: float = 0.05

    def __post_init__(self) -> None:
        """Check the ranges.

        Raises:
            ValueError: A value is out of its range.
        """
        if not (math.isfinite(self.prior_weight) and self.prior_weight >= 0):
            raise ValueError(f"prior_weight must be 0 or above, got {self.prior_weight}")
        if not (math.isfinite(self.attention_floor) and self.attention_floor > 0):
            raise ValueError(f"attention_floor must be above 0, got {self.attention_floor}")

    @property
    def exponent(self) -> float:
        """The exponent that holds."""
        named = self.settings.prior_weight
        return self.prior_weight if named is None else named


def token_scores(
    spans: Sequence[RegionSpan],
    num_tokens: int,
    config: ScoreConfig,
    attention: Floats | None = None,
) -> Floats:
    """Return the logarithm of each token's score, ``(num_tokens,)``, float64.

    log score = w · (log initial score - decay · age) + weight of the region
        + log(floor + attention / mean attention)

    The last term is left out without attention. Age counts the tokens behind a token.

    Args:
        spans: See `token_regions`.
        num_tokens: Tokens in all.
        config: What the regions mean.
        attention: Attention that each token gets, ``(num_tokens,)``, 0 or above.

    Raises:
        ValueError: The spans or the attention do not fit the tokens.
    """
    regions = token_regions(spans, num_tokens)
    table = config.settings.table
    ages = np.arange(num_tokens - 1, -1, -1)
    prior = np.log(table.initial_scores)[regions] - np.array(table.decays)[regions] * ages
    scores = config.exponent * prior + np.array(config.settings.weights)[regions]
    if attention is None:
        return np.asarray(scores, np.float64)
    if attention.shape != (num_tokens,) or (attention < 0).any():
        raise ValueError(
            f"attention must be 0 or above for each of {num_tokens} tokens, got the shape "
            f"{attention.shape}"
        )
    mean = attention.mean() if num_tokens else 0.0
    relative = attention / mean if mean > 0 else np.ones(num_tokens)
    return np.asarray(scores + np.log(config.attention_floor + relative), np.float64)


def tokens_to_live(
    scores: Floats,
    spans: Sequence[RegionSpan],
    config: ScoreConfig,
    log_threshold: float,
) -> Floats:
    """Return after how many more tokens each score falls below a threshold.

    Args:
        scores: See `token_scores`, ``(num_tokens,)``, float64.
        spans: The spans that they came from.
        config: The configuration that they came from.
        log_threshold: Logarithm of the least score that is worth its bytes.

    Returns:
        ``(num_tokens,)``, float64: 0 where it is below already, infinite where nothing decays.
    """
    regions = token_regions(spans, len(scores))
    rates = config.exponent * np.array(config.settings.table.decays)[regions]
    left = np.maximum(scores - log_threshold, 0.0)
    never = np.where(left > 0, np.inf, 0.0)
    return np.divide(left, rates, out=never, where=rates > 0)
