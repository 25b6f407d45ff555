"""Regions as stretches of tokens, and back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from memdecay.classifier.regions import NUM_REGIONS, Region


@dataclass(frozen=True, slots=True)
class RegionSpan:
    """Neighbouring tokens of one region.

    Attributes:
        start: Position of the first.
        stop: Position behind the last.
        region: What they are for.
    """

    start: int
    stop: int
    region: Region

    def __post_init__(self) -> None:
        """Check the ends.

        Raises:
            ValueError: The span is empty or begins before the first token.
        """
        if not 0 <= self.start < self.stop:
            raise ValueError(
                f"a span must have 0 <= start < stop, got {self.start} and {self.stop}"
            )


def region_spans(regions: NDArray[np.integer]) -> tuple[RegionSpan, ...]:
    """Return the runs of equal regions, in order and without gaps.

    Args:
        regions: Region of each token, ``(n,)``, integer.

    Raises:
        ValueError: The shape is another, or a value is no region.

    >>> region_spans(np.array([0, 0, 4]))[0].stop
    2
    """
    if regions.ndim != 1 or not np.issubdtype(regions.dtype, np.integer):
        raise ValueError(
            f"regions must be integers of shape (n,), got {regions.dtype} {regions.shape}"
        )
    if regions.size and not 0 <= regions.min() <= regions.max() < NUM_REGIONS:
        raise ValueError(
            f"regions must be from 0 to {NUM_REGIONS - 1}, got {regions.min()} to {regions.max()}"
        )
    starts = np.flatnonzero(np.diff(regions, prepend=-1))
    stops = np.append(starts, regions.size)[1:]
    return tuple(
        RegionSpan(int(start), int(stop), Region(int(regions[start])))
        for start, stop in zip(starts, stops, strict=True)
    )


def token_regions(spans: Sequence[RegionSpan], num_tokens: int) -> NDArray[np.int64]:
    """Return the region of each token, ``(num_tokens,)``, int64.

    Args:
        spans: In any order, without overlap; tokens that none covers are ordinary context.
        num_tokens: Tokens in all.

    Raises:
        ValueError: Two spans overlap, or one ends behind the last token.
    """
    regions = np.full(num_tokens, Region.ORDINARY_CONTEXT, np.int64)
    stop = 0
    for span in sorted(spans, key=lambda span: span.start):
        if span.start < stop:
            raise ValueError(f"spans must not overlap, but one begins at {span.start} of {stop}")
        if span.stop > num_tokens:
            raise ValueError(f"a span ends at {span.stop}, behind the last of {num_tokens} tokens")
        regions[span.start : span.stop] = span.region
        stop = span.stop
    return regions
