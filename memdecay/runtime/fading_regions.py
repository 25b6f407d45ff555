"""What the settings of the regions mean where tokens fade: floors, caps, floors of precision."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from memdecay.classifier.region_settings import BIT_WIDTHS
from memdecay.classifier.regions import NUM_REGIONS
from memdecay.runtime.fading import FORGOTTEN, Step
from memdecay.runtime.precision.layout import Move

_MOST_LOWERED = 20.0
_SEARCH_STEPS = 10


def region_min_bits(regions: Tensor, min_bits: Sequence[int]) -> Tensor:
    """Return the bits below which each token may not fall while it is kept.

    Args:
        regions: Shape ``(batch, kept)``, int64.
        min_bits: See `RegionSettings.min_bits`.

    Returns:
        Shape ``(batch, kept)``, int64; `FORGOTTEN` where nothing binds.
    """
    binding = [FORGOTTEN if bits == BIT_WIDTHS[0] else bits for bits in min_bits]
    return torch.tensor(binding, device=regions.device)[regions]


def least_costs(min_bits: Tensor, steps: Sequence[Step]) -> Tensor:
    """Return what each token costs at the coarsest step that it may stand at.

    Args:
        min_bits: Shape ``(batch, kept)``, int64.
        steps: Coarsest first.

    Returns:
        Tokens at full precision, shape ``(batch, kept)``, float32.
    """
    bits = torch.tensor([step.bits for step in steps], device=min_bits.device)
    costs = torch.tensor([step.cost for step in steps], device=min_bits.device)
    coarsest = torch.searchsorted(bits, min_bits).clamp_max(len(steps) - 1)
    return costs[coarsest]


def floor_tokens(
    log_worth: Tensor, regions: Tensor, costs: Tensor, shares: Sequence[float], room: float
) -> Tensor:
    """Find the tokens that their regions' floors keep: the best of each region.

    Args:
        log_worth: Shape ``(batch, kept)``, float; minus infinity for tokens that no floor counts.
        regions: Shape ``(batch, kept)``, int64.
        costs: What each token costs at the least, shape ``(batch, kept)``, float.
        shares: See `RegionSettings.min_shares`.
        room: What the shares are shares of, in the unit of the costs.

    Returns:
        Shape ``(batch, kept)``, bool.
    """
    is_kept = torch.zeros_like(regions, dtype=torch.bool)
    for region, share in enumerate(shares):
        if not share:
            continue
        is_own = (regions == region) & ~torch.isneginf(log_worth)
        order = log_worth.masked_fill(~is_own, -math.inf).argsort(dim=1, descending=True)
        spent = torch.where(is_own, costs, 0.0).gather(1, order).cumsum(dim=1)
        is_within = torch.empty_like(is_own).scatter_(1, order, spent <= share * max(room, 0.0))
        is_kept |= is_within & is_own
    return is_kept


def plan_within_caps(
    plan: Callable[[Tensor], Move],
    log_worth: Tensor,
    regions: Tensor,
    caps: Sequence[float | None],
    costs: Sequence[float],
    budget: float,
) -> Move:
    """Plan so that no region takes more than its share, as long as others want the room.

    The worth of a region's tokens is lowered by as little as brings it down to its cap. It is
    never lowered so far that they would go while others could only gain the last bits.

    Args:
        plan: Makes a move of the tokens' log worth.
        log_worth: Shape ``(batch, kept)``, float.
        regions: Shape ``(batch, kept)``, int64.
        caps: See `RegionSettings.max_shares`.
        costs: What a token costs at each step of a move's layout.
        budget: What the caps are shares of, in the unit of the costs.
    """
    most = [math.inf if cap is None else cap * budget for cap in caps]
    limits = torch.tensor(most, device=log_worth.device)
    move = plan(log_worth)
    if not bool(_is_over(move, regions, costs, limits).any()):
        return move
    low = torch.zeros(NUM_REGIONS, device=log_worth.device)
    high = low.masked_fill(limits.isfinite(), _MOST_LOWERED)
    for _ in range(_SEARCH_STEPS):
        middle = (low + high) / 2
        is_over = _is_over(plan(log_worth - middle[regions]), regions, costs, limits)
        low = torch.where(is_over, middle, low)
        high = torch.where(is_over, high, middle)
    return plan(log_worth - high[regions])


def _is_over(move: Move, regions: Tensor, costs: Sequence[float], limits: Tensor) -> Tensor:
    """Tell which regions take more than they may, ``(regions,)``, bool."""
    token_costs = torch.tensor(costs, device=regions.device)[move.after.steps(regions.device)]
    kept = regions.gather(1, move.indices)
    spent = torch.zeros(NUM_REGIONS, device=regions.device)
    spent.index_add_(0, kept.flatten(), token_costs.expand_as(kept).flatten())
    return spent / len(regions) > limits + 1e-4
