"""What each trace adds to the figures: sums that make any resampling a matrix product."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from memdecay.classifier.regions import NUM_REGIONS
from memdecay.training.calibration.tokens import TaggedTokens

NUM_BINS = 15
"""Equal bins of confidence, as `region_metrics` has them."""

NUM_SLOTS = NUM_BINS + 1
"""The bins and, as in torchmetrics, a slot for tokens of confidence exactly one."""

COUNT, CONFIDENCE, HITS = range(3)
"""What a slot sums up: tokens, their confidence, and how many of them are right."""

_LEAST_PROBABILITY = 1e-12

Sums = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class TraceSums:
    """Sums over the tokens of traces, one row a trace (or a resample of traces).

    Attributes:
        confusion: ``(..., num_regions, num_regions)``; tokens of region i that were tagged j.
        slots: ``(..., NUM_SLOTS, 3)``; tokens, confidence and hits by bin of confidence.
        tagged_confidence: ``(..., num_regions)``; confidence of the tokens tagged as each region.
        nll: ``(...,)``; negative log-likelihood of the labels, nats.
        brier: ``(...,)``; squared distance of the probabilities to the label's unit vector.
    """

    confusion: Sums
    slots: Sums
    tagged_confidence: Sums
    nll: Sums
    brier: Sums

    @property
    def num_tokens(self) -> Sums:
        """Tokens, ``(...,)``."""
        tokens: Sums = self.confusion.sum(axis=(-2, -1))
        return tokens

    def weighted(self, weights: NDArray[np.float64]) -> TraceSums:
        """Return the sums over traces taken with weights.

        Args:
            weights: ``(resamples, num_traces)``.

        Returns:
            Sums with ``resamples`` rows.
        """
        return self._mapped(lambda array: np.tensordot(weights, array, axes=(1, 0)))

    def total(self) -> TraceSums:
        """Return the sums over all traces, without the leading dimension."""
        return self._mapped(lambda array: array.sum(axis=0))

    def rows(self, index: Any) -> TraceSums:
        """Return some of the traces, by anything that indexes an array."""
        return self._mapped(lambda array: array[index])

    def joined(self, other: TraceSums) -> TraceSums:
        """Return the traces of both."""
        pairs = {
            item.name: np.concatenate([getattr(self, item.name), getattr(other, item.name)])
            for item in fields(self)
        }
        return TraceSums(**pairs)

    def _mapped(self, function: Any) -> TraceSums:
        return TraceSums(**{item.name: function(getattr(self, item.name)) for item in fields(self)})


def trace_sums(tokens: TaggedTokens) -> TraceSums:
    """Sum up tokens by trace.

    Returns:
        One row for each trace that has tokens, in order.
    """
    row, num_rows = _rows(tokens)
    predicted, confidence = tokens.predicted, tokens.confidence
    cell = tokens.labels * NUM_REGIONS + predicted
    shape = (num_rows, NUM_REGIONS, NUM_REGIONS)
    label_probs = tokens.region_probs[np.arange(len(tokens)), tokens.labels].astype(np.float64)
    squares = np.square(tokens.region_probs, dtype=np.float64).sum(axis=1)
    return TraceSums(
        confusion=_sum_cells(row, cell, shape),
        slots=_sum_slots(row, num_rows, confidence, predicted == tokens.labels),
        tagged_confidence=_sum_cells(row, predicted, (num_rows, NUM_REGIONS), confidence),
        nll=_sum_rows(row, num_rows, -np.log(np.maximum(label_probs, _LEAST_PROBABILITY))),
        # sum_k (p_k - y_k)^2 = sum_k p_k^2 - 2 p_label + 1
        brier=_sum_rows(row, num_rows, squares - 2 * label_probs + 1),
    )


def region_slots(tokens: TaggedTokens) -> Sums:
    """Sum up, for every region, its probability against whether it is the label.

    Returns:
        ``(num_traces, num_regions, NUM_SLOTS, 3)``, a row for each trace that has tokens.
    """
    row, num_rows = _rows(tokens)
    return np.stack(
        [
            _sum_slots(row, num_rows, tokens.region_probs[:, region], tokens.labels == region)
            for region in range(NUM_REGIONS)
        ],
        axis=1,
    )


def _rows(tokens: TaggedTokens) -> tuple[NDArray[np.int64], int]:
    present, row = np.unique(tokens.trace, return_inverse=True)
    return row, len(present)


def _sum_slots(
    row: NDArray[np.int64],
    num_rows: int,
    confidence: NDArray[np.float32],
    is_hit: NDArray[np.bool_],
) -> Sums:
    # In float32 and open on the right, like torchmetrics: the figures must agree.
    bounds = np.linspace(0, 1, NUM_SLOTS, dtype=np.float32)
    slot = np.searchsorted(bounds, confidence, side="right") - 1
    shape = (num_rows, NUM_SLOTS)
    return np.stack(
        [
            _sum_cells(row, slot, shape),
            _sum_cells(row, slot, shape, confidence),
            _sum_cells(row, slot, shape, is_hit),
        ],
        axis=-1,
    )


def _sum_rows(row: NDArray[np.int64], num_rows: int, values: Sums) -> Sums:
    return np.bincount(row, values, num_rows).astype(np.float64)


def _sum_cells(
    row: NDArray[np.int64],
    cell: NDArray[np.int64],
    shape: tuple[int, ...],
    values: NDArray[Any] | None = None,
) -> Sums:
    cells = int(np.prod(shape[1:]))
    weights = None if values is None else values.astype(np.float64)
    flat = np.bincount(row * cells + cell, weights, minlength=shape[0] * cells)
    return flat.astype(np.float64).reshape(shape)
