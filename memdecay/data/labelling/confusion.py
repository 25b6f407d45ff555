"""Figures of agreement between two labellings, all from one confusion matrix of characters."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import cohen_kappa_score

from memdecay.classifier.regions import NUM_REGIONS, REGION_LABELS
from memdecay.data.labelling.arrays import UNLABELLED

Confusion = NDArray[np.int64]


def count_pairs(first: Iterable[NDArray[np.int8]], second: Iterable[NDArray[np.int8]]) -> Confusion:
    """Count characters by (first, second) region; where either is unlabelled, none.

    Returns:
        ``(NUM_REGIONS, NUM_REGIONS)`` int64.
    """
    counts = np.zeros(NUM_REGIONS * NUM_REGIONS, np.int64)
    for left, right in zip(first, second, strict=True):
        both = (left != UNLABELLED) & (right != UNLABELLED)
        cells = left[both].astype(np.int64) * NUM_REGIONS + right[both]
        counts += np.bincount(cells, minlength=counts.size)
    return counts.reshape(NUM_REGIONS, NUM_REGIONS)


def accuracy(confusion: Confusion) -> float:
    """Return the share of characters on the diagonal; 0 without any."""
    total = int(confusion.sum())
    return float(np.trace(confusion) / total) if total else 0.0


def f1_per_region(confusion: Confusion) -> dict[str, float]:
    """Return 2 TP / (2 TP + FP + FN) by region name, rows being the truth; 0 where undefined."""
    hits = np.diag(confusion)
    sizes = confusion.sum(axis=0) + confusion.sum(axis=1)
    scores = 2 * hits / np.maximum(sizes, 1)
    return {label: float(score) for label, score in zip(REGION_LABELS, scores, strict=True)}


def macro_f1(confusion: Confusion) -> float:
    """Return the mean F1 of the regions that occur on either side; 0 without any."""
    occurs = (confusion.sum(axis=0) + confusion.sum(axis=1)) > 0
    scores = np.array(list(f1_per_region(confusion).values()))
    return float(scores[occurs].mean()) if occurs.any() else 0.0


def cohen_kappa(confusion: Confusion) -> float:
    """Return Cohen's kappa, weighted by characters; nan where it is undefined."""
    rows, columns = np.nonzero(confusion)
    # One region on both sides alone leaves chance agreement at 1 and kappa at 0/0.
    if len(set(rows.tolist()) | set(columns.tolist())) < 2:
        return float("nan")
    return float(cohen_kappa_score(rows, columns, sample_weight=confusion[rows, columns]))


def krippendorff_alpha(confusion: Confusion) -> float:
    """Return Krippendorff's alpha for nominal data and two annotators, a character being a unit.

    alpha = 1 - (n - 1) * sum_{c != k} o_ck / sum_{c != k} n_c n_k, with the coincidences
    o = C + C^T of the confusion matrix C, n_c their row sums and n their total.
    It is nan where undefined. The package of this name wants a row for each unit, here for each
    character; the tests compare with it.

    Source: K. Krippendorff, "Computing Krippendorff's Alpha-Reliability" (2011), section C.
    """
    coincidences = (confusion + confusion.T).astype(np.float64)
    sizes = coincidences.sum(axis=1)
    total = sizes.sum()
    expected = total**2 - (sizes**2).sum()
    if expected <= 0:
        return float("nan")
    observed = total - np.trace(coincidences)
    return float(1 - (total - 1) * observed / expected)
