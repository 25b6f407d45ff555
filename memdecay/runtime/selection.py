"""Which tokens stay when the cache shrinks: the best scores, protected tokens, capped regions."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from memdecay.classifier.regions import NUM_REGIONS

_PROTECTED, _WITHIN_CAP, _OVER_CAP, _PADDING = range(4)


def select_kept(
    scores: Tensor,
    regions: Tensor,
    is_protected: Tensor,
    num_keep: int,
    max_region_share: float | Sequence[float] = 1.0,
) -> Tensor:
    """Choose the slots that stay, the same number in every row.

    Protected tokens stay first and count against their region's cap. Then the best scores stay, as
    long as their region has less than its share of ``num_keep``. Room that no other region wants
    goes to the best tokens above the caps. Slots with a score of minus infinity (padding) stay
    only if there is still room. Among equal scores the newer token stays.

    Args:
        scores: Shape ``(batch, kept)``, float, oldest token first; no NaN.
        regions: Region of each slot, shape ``(batch, kept)``, int64.
        is_protected: Slots that always stay, shape ``(batch, kept)``, bool.
        num_keep: Slots that stay in each row, 0 to ``kept``.
        max_region_share: Largest share of ``num_keep`` for any region, 0 to 1, or one share for
            each region in the order of `Region`.

    Returns:
        Indices of the slots that stay, ascending, shape ``(batch, num_keep)``, int64.

    Raises:
        ValueError: Shapes differ, ``num_keep`` is out of range, a share is outside 0 to 1, or a
            row has more than ``num_keep`` protected tokens.
    """
    caps = _caps(max_region_share, num_keep).to(scores.device)
    _check(scores, regions, is_protected, num_keep)
    order = _best_first(scores, is_protected)
    sorted_regions = regions.gather(1, order)
    is_within_cap = _rank_in_region(sorted_regions) < caps[sorted_regions]
    tier = torch.where(is_within_cap, _WITHIN_CAP, _OVER_CAP)
    tier = tier.masked_fill(torch.isneginf(scores).gather(1, order), _PADDING)
    tier = tier.masked_fill(is_protected.gather(1, order), _PROTECTED)
    by_tier = order.gather(1, tier.argsort(dim=1, stable=True))
    return by_tier[:, :num_keep].sort(dim=1).values


def _best_first(scores: Tensor, is_protected: Tensor) -> Tensor:
    """Order slots by protection, then score, then newest, all descending."""
    newest_first = torch.arange(scores.shape[1] - 1, -1, -1, device=scores.device)
    by_score = scores[:, newest_first].argsort(dim=1, descending=True, stable=True)
    order = newest_first[by_score]
    is_open = (~is_protected).gather(1, order)
    return order.gather(1, is_open.to(torch.uint8).argsort(dim=1, stable=True))


def _rank_in_region(sorted_regions: Tensor) -> Tensor:
    """Count, for each slot, the earlier slots of its region."""
    one_hot = torch.nn.functional.one_hot(sorted_regions, NUM_REGIONS)  # (batch, kept, regions)
    return one_hot.cumsum(dim=1).gather(2, sorted_regions.unsqueeze(2)).squeeze(2) - 1


def _caps(max_region_share: float | Sequence[float], num_keep: int) -> Tensor:
    shares = (
        [max_region_share] * NUM_REGIONS
        if isinstance(max_region_share, int | float)
        else list(max_region_share)
    )
    if len(shares) != NUM_REGIONS or not all(0 <= share <= 1 for share in shares):
        raise ValueError(
            f"max_region_share must be a share from 0 to 1, or {NUM_REGIONS} of them, got {shares}"
        )
    # The rounding keeps 0.3 * 10 at 3, which binary fractions put just below.
    return torch.tensor([int(round(share * num_keep, 6)) for share in shares])


def _check(scores: Tensor, regions: Tensor, is_protected: Tensor, num_keep: int) -> None:
    if not scores.shape == regions.shape == is_protected.shape or scores.ndim != 2:
        raise ValueError(
            "scores, regions and is_protected must share one shape (batch, kept), got "
            f"{tuple(scores.shape)}, {tuple(regions.shape)} and {tuple(is_protected.shape)}"
        )
    if not 0 <= num_keep <= scores.shape[1]:
        raise ValueError(f"num_keep must be from 0 to {scores.shape[1]}, got {num_keep}")
    most_protected = int(is_protected.sum(dim=1).max()) if scores.shape[0] else 0
    if most_protected > num_keep:
        raise ValueError(f"a row protects {most_protected} tokens, more than num_keep={num_keep}")
