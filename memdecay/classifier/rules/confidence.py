"""How far the rules are to be trusted: what a text's region really was when they named one."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from memdecay.classifier.regions import Region

_SHARES = (
    (0.94, 0.01, 0.01, 0.01, 0.03),
    (0.01, 0.79, 0.02, 0.08, 0.10),
    (0.01, 0.01, 0.83, 0.01, 0.14),
    (0.02, 0.06, 0.01, 0.89, 0.02),
    (0.01, 0.01, 0.15, 0.01, 0.82),
)
"""A row for each region that the rules name: the shares of the annotated regions.

Counted by tokens over 263 annotated agent traces, the rules seeing nothing of later messages,
and kept 0.01 or above. The rules were written with those traces at hand, so that on others they
are a little less right.
"""


def rule_region_probs(
    labels: NDArray[np.int8], *, unlabelled: Region = Region.ORDINARY_CONTEXT
) -> NDArray[np.float32]:
    """Return region probabilities for labels that the rules gave.

    Args:
        labels: ``(n,)``, int8; values as in `Region`, below zero where the rules said nothing.
        unlabelled: What those count as.

    Returns:
        ``(n, NUM_REGIONS)``, float32; rows sum to 1.
    """
    shares = np.array(_SHARES, np.float32)
    return shares[np.where(labels < 0, int(unlabelled), labels)]
