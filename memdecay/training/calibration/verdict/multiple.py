"""Many tests at once, with one error rate for all of them together."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def holm(p_values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return p-values adjusted so that at most alpha of all batches raise any false alarm.

    Args:
        p_values: ``(tests,)``; nan for tests that could not be made, which stay nan.

    Returns:
        ``(tests,)``: the running maximum of (tests - rank) times the rank-th smallest, at most 1.

    Source:
        Holm 1979, A simple sequentially rejective multiple test procedure.
    """
    adjusted = np.full(p_values.shape, np.nan)
    made = np.flatnonzero(~np.isnan(p_values))
    order = made[np.argsort(p_values[made], kind="stable")]
    factors = np.arange(len(order), 0, -1)
    adjusted[order] = np.minimum(1.0, np.maximum.accumulate(factors * p_values[order]))
    return adjusted
