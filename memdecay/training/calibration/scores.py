"""Figures computed from sums, for one sample or for many resamples at once."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from memdecay.training.calibration.sums import CONFIDENCE, COUNT, HITS, Sums, TraceSums

Scores = NDArray[np.float64]


def precision(confusion: Sums) -> Scores:
    """Return the precision of each region, ``(..., num_regions)``; 0 where nothing is tagged."""
    return _ratio(_diagonal(confusion), confusion.sum(axis=-2))


def recall(confusion: Sums) -> Scores:
    """Return the recall of each region, ``(..., num_regions)``; 0 where it has no tokens."""
    return _ratio(_diagonal(confusion), confusion.sum(axis=-1))


def f1(confusion: Sums) -> Scores:
    """Return 2 TP / (2 TP + FP + FN), ``(..., num_regions)``; nan where the region never occurs."""
    sizes = confusion.sum(axis=-1) + confusion.sum(axis=-2)
    return np.where(sizes > 0, _ratio(2 * _diagonal(confusion), sizes), np.nan)


def macro_f1(confusion: Sums) -> Scores:
    """Return the mean F1 of the regions that occur, ``(...,)``."""
    scores = f1(confusion)
    occurs = ~np.isnan(scores)
    return _ratio(np.where(occurs, scores, 0.0).sum(axis=-1), occurs.sum(axis=-1))


def accuracy(confusion: Sums) -> Scores:
    """Return the share of tokens tagged right, ``(...,)``."""
    return _ratio(_diagonal(confusion).sum(axis=-1), confusion.sum(axis=(-2, -1)))


def calibration_error(slots: Sums) -> Scores:
    """Return the expected calibration error, ``(...,)``.

    ECE = sum_b n_b / n |acc_b - conf_b| over the bins b of confidence.

    Args:
        slots: ``(..., num_slots, 3)``; see `TraceSums`.

    Source:
        Guo et al. 2017, On Calibration of Modern Neural Networks, equation 3.
    """
    gaps = np.abs(slots[..., CONFIDENCE] - slots[..., HITS]).sum(axis=-1)
    return _ratio(gaps, slots[..., COUNT].sum(axis=-1))


def classwise_error(slots: Sums) -> Scores:
    """Return the mean over regions of the error of the region's own probability, ``(...,)``.

    Args:
        slots: ``(..., num_regions, num_slots, 3)``; see `region_slots`.

    Source:
        Kull et al. 2019, Beyond temperature scaling, equation 3.
    """
    errors: Scores = calibration_error(slots).mean(axis=-1)
    return errors


def confidence_gap(sums: TraceSums) -> Scores:
    """Return mean confidence minus precision of the tokens tagged as each region.

    Returns:
        ``(..., num_regions)``; above zero where the classifier promises too much, nan where
        nothing is tagged.
    """
    tagged = sums.confusion.sum(axis=-2)
    gaps = _ratio(sums.tagged_confidence - _diagonal(sums.confusion), tagged)
    return np.where(tagged > 0, gaps, np.nan)


def mean_nll(sums: TraceSums) -> Scores:
    """Return the mean negative log-likelihood of the labels, ``(...,)``, nats."""
    return _ratio(sums.nll, sums.num_tokens)


def mean_brier(sums: TraceSums) -> Scores:
    """Return the mean Brier score over all regions, ``(...,)``, from 0 to 2."""
    return _ratio(sums.brier, sums.num_tokens)


def _diagonal(confusion: Sums) -> Sums:
    return np.diagonal(confusion, axis1=-2, axis2=-1)


def _ratio(upper: Sums, lower: NDArray[np.float64] | NDArray[np.int64]) -> Scores:
    return np.divide(upper, lower, out=np.zeros(np.shape(lower)), where=np.asarray(lower) > 0)
