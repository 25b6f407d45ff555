"""A retention plan: ranges of tokens, each with a priority and a time to live."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from memdecay.classifier.region_settings import RegionSettings
from memdecay.classifier.regions import Region
from memdecay.retention.blocks import Reduction, block_scores, num_blocks, select_blocks
from memdecay.retention.scores import Floats, ScoreConfig, token_scores, tokens_to_live
from memdecay.retention.spans import RegionSpan

MOST_PRIORITY = 100


@dataclass(frozen=True, slots=True)
class PlanConfig:
    """How a plan is made.

    Attributes:
        score: What the regions mean.
        block_size: Tokens of the engine's blocks; ranges begin and end at their edges.
        reduction: How a block's score follows from its tokens', see `block_scores`.
        num_sinks: First tokens that get the highest priority for good.
        num_recent: Newest tokens that a budget may not touch.
        budget_tokens: Room; blocks beyond it get priority 0 and no time. None for no limit.
        min_score: The least score that is worth its bytes, above 0: priority 0, and where time
            ends.
        tokens_per_second: How fast the conversation goes on, which turns ages into times; None
            leaves the times out.
    """

    score: ScoreConfig = field(default_factory=lambda: ScoreConfig(RegionSettings()))
    block_size: int = 16
    reduction: Reduction = "mean"
    num_sinks: int = 4
    num_recent: int = 128
    budget_tokens: int | None = None
    min_score: float = 0.1
    tokens_per_second: float | None = None

    def __post_init__(self) -> None:
        """Check the ranges.

        Raises:
            ValueError: A value is out of its range.
        """
        if self.block_size < 1:
            raise ValueError(f"block_size must be 1 or more, got {self.block_size}")
        for name in ("num_sinks", "num_recent"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name} must be 0 or more, got {getattr(self, name)}")
        if self.budget_tokens is not None and self.budget_tokens < 1:
            raise ValueError(f"budget_tokens must be 1 or more, got {self.budget_tokens}")
        if not (math.isfinite(self.min_score) and self.min_score > 0):
            raise ValueError(f"min_score must be above 0, got {self.min_score}")
        rate = self.tokens_per_second
        if rate is not None and not (math.isfinite(rate) and rate > 0):
            raise ValueError(f"tokens_per_second must be above 0, got {rate}")


@dataclass(frozen=True, slots=True)
class TokenRange:
    """Neighbouring blocks that are worth the same.

    Attributes:
        token_start: Position of the first token.
        token_end: Position behind the last.
        priority: 0 to 100; the lowest go first.
        duration_ms: For how long the priority holds; None for good, or where no rate is known.
    """

    token_start: int
    token_end: int
    priority: int
    duration_ms: int | None = None


@dataclass(frozen=True, slots=True)
class RetentionPlan:
    """What to keep of a sequence, in the terms that serving engines take.

    Attributes:
        block_size: Tokens of a block.
        num_tokens: Tokens of the sequence.
        ranges: In order, without gaps.
        decode_priority: Priority of tokens to come.
        decode_duration_ms: For how long it holds; None as in `TokenRange`.
    """

    block_size: int
    num_tokens: int
    ranges: tuple[TokenRange, ...]
    decode_priority: int
    decode_duration_ms: int | None

    def to_dict(self) -> dict[str, Any]:
        """Return the plan as plain data for JSON."""
        return asdict(self) | {"ranges": [asdict(part) for part in self.ranges]}


def plan_retention(
    spans: Sequence[RegionSpan],
    num_tokens: int,
    config: PlanConfig | None = None,
    attention: Floats | None = None,
    pins: Sequence[tuple[int, int]] = (),
) -> RetentionPlan:
    """Say which ranges of tokens deserve to be kept, how much, and for how long.

    A block's priority grows with the logarithm of its score, from 0 at `PlanConfig.min_score` to
    100 at the best fresh token of any region. Its time is that of its longest-lived token.

    Args:
        spans: Regions of the tokens, see `token_regions`.
        num_tokens: Tokens of the sequence.
        config: Block size, budget and rate.
        attention: Attention that each token gets, if it was watched, ``(num_tokens,)``.
        pins: First position and the one behind the last of what has the highest priority.

    Raises:
        ValueError: The spans, pins or the attention do not fit the tokens, or the protected tokens
            exceed the budget.
    """
    config = config or PlanConfig()
    is_pinned = _pinned(num_tokens, config.num_sinks, pins)
    scores = token_scores(spans, num_tokens, config.score, attention)
    log_least = math.log(config.min_score)
    lives = tokens_to_live(scores, spans, config.score, log_least)
    lives[is_pinned] = math.inf
    priorities = _priorities(block_scores(scores, config.block_size, config.reduction), config)
    priorities[np.flatnonzero(is_pinned) // config.block_size] = MOST_PRIORITY
    count = num_blocks(num_tokens, config.block_size)
    firsts = np.arange(count) * config.block_size
    block_lives = np.maximum.reduceat(lives, firsts) if count else np.zeros(0)
    if config.budget_tokens is not None:
        is_safe = is_pinned | (np.arange(num_tokens) >= num_tokens - config.num_recent)
        kept = select_blocks(
            scores, config.block_size, config.budget_tokens, is_safe, config.reduction
        )
        is_lost = np.ones(count, np.bool_)
        is_lost[kept] = False
        priorities[is_lost] = 0
        block_lives[is_lost] = 0.0
    new = token_scores((), 1, config.score)
    return RetentionPlan(
        config.block_size,
        num_tokens,
        _ranges(priorities, block_lives, num_tokens, config),
        int(_priorities(new, config)[0]),
        _duration_ms(float(tokens_to_live(new, (), config.score, log_least)[0]), config),
    )


def _pinned(num_tokens: int, num_sinks: int, pins: Sequence[tuple[int, int]]) -> NDArray[np.bool_]:
    is_pinned = np.arange(num_tokens) < num_sinks
    for start, stop in pins:
        if not 0 <= start < stop <= num_tokens:
            raise ValueError(
                f"a pin must lie within the {num_tokens} tokens, got {start} to {stop}"
            )
        is_pinned[start:stop] = True
    return is_pinned


def _priorities(scores: Floats, config: PlanConfig) -> NDArray[np.int64]:
    """Bring logarithms of scores to 0 to 100."""
    score = config.score
    best = max(
        score.exponent * math.log(score.settings.table[region].initial_score)
        + score.settings.weights[region]
        for region in Region
    )
    low = math.log(config.min_score)
    span = max(best - low, 1e-9)
    return np.clip(np.rint(MOST_PRIORITY * (scores - low) / span), 0, MOST_PRIORITY).astype(
        np.int64
    )


def _ranges(
    priorities: NDArray[np.int64], lives: Floats, num_tokens: int, config: PlanConfig
) -> tuple[TokenRange, ...]:
    if not priorities.size:
        return ()
    firsts = np.flatnonzero(np.diff(priorities, prepend=-1))
    longest = np.maximum.reduceat(lives, firsts)
    ends = [*(firsts[1:] * config.block_size), num_tokens]
    return tuple(
        TokenRange(
            int(first) * config.block_size,
            int(end),
            int(priorities[first]),
            _duration_ms(float(live), config),
        )
        for first, end, live in zip(firsts, ends, longest, strict=True)
    )


def _duration_ms(num_tokens: float, config: PlanConfig) -> int | None:
    if config.tokens_per_second is None or math.isinf(num_tokens):
        return None
    return math.ceil(1000 * num_tokens / config.tokens_per_second)
