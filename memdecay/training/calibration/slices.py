"""Figures by where tokens come from: the source, and the place in the trace."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from memdecay.training.calibration import scores
from memdecay.training.calibration.resampling import Estimate, bootstrap_weights, interval
from memdecay.training.calibration.sums import trace_sums
from memdecay.training.calibration.tokens import TaggedTokens

NUM_POSITION_BINS = 8

_UNNAMED = "(no source)"


@dataclass(frozen=True, slots=True)
class Slice:
    """Figures on some of the tokens.

    Attributes:
        name: What they have in common.
        num_traces: Traces that hold such tokens.
        num_tokens: The tokens.
        accuracy: Share tagged right.
        macro_f1: Mean F1 of the regions that occur among them.
        ece: Expected calibration error.
    """

    name: str
    num_traces: int
    num_tokens: int
    accuracy: Estimate
    macro_f1: Estimate
    ece: Estimate


def by_source(
    tokens: TaggedTokens, sources: Sequence[str], num_resamples: int, rng: np.random.Generator
) -> tuple[Slice, ...]:
    """Measure the traces of each source, the largest first.

    Args:
        tokens: The tokens.
        sources: The source of each trace; empty where unknown.
        num_resamples: Bootstrap samples behind each interval.
        rng: Where randomness comes from.
    """
    names = np.array([source or _UNNAMED for source in sources], dtype=object)
    of_token = names[tokens.trace]
    slices = [
        _slice(str(name), tokens.where(of_token == name), num_resamples, rng)
        for name in sorted(set(of_token.tolist()))
    ]
    return tuple(sorted(slices, key=lambda item: -item.num_tokens))


def by_position(
    tokens: TaggedTokens, num_resamples: int, rng: np.random.Generator
) -> tuple[Slice, ...]:
    """Measure tokens by how many stand before them in the trace.

    The bins hold about as many tokens each; bins that would be alike are merged.
    """
    bounds = _position_bounds(tokens.position)
    slices = []
    for low, high in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
        mask = (tokens.position >= low) & (tokens.position < high)
        if mask.any():
            name = f"{low:,} to {high - 1:,}"
            slices.append(_slice(name, tokens.where(mask), num_resamples, rng))
    return tuple(slices)


def _position_bounds(position: NDArray[np.int64]) -> NDArray[np.int64]:
    inner = np.quantile(position, np.linspace(0, 1, NUM_POSITION_BINS + 1)[1:-1])
    bounds = [0, *np.ceil(inner).astype(np.int64), int(position.max()) + 1]
    return np.unique(np.array(bounds, np.int64))


def _slice(name: str, tokens: TaggedTokens, num_resamples: int, rng: np.random.Generator) -> Slice:
    sums = trace_sums(tokens)
    num_traces = len(sums.nll)
    weights = bootstrap_weights(num_traces, num_resamples if num_traces > 1 else 0, rng)
    total, resampled = sums.total(), sums.weighted(weights)
    return Slice(
        name=name,
        num_traces=num_traces,
        num_tokens=len(tokens),
        accuracy=interval(
            float(scores.accuracy(total.confusion)), scores.accuracy(resampled.confusion)
        ),
        macro_f1=interval(
            float(scores.macro_f1(total.confusion)), scores.macro_f1(resampled.confusion)
        ),
        ece=interval(
            float(scores.calibration_error(total.slots)),
            scores.calibration_error(resampled.slots),
            is_inflated=True,
        ),
    )
