"""Which tokens lose precision or go before the budget is used up: those far below the threshold."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from memdecay.runtime.fading import Choices, lowest_price, move_of
from memdecay.runtime.precision.layout import Layout, Move


def plan_far_below(
    choices: Choices,
    layout: Layout,
    order: Tensor,
    keep_share: float,
    log_margin: float,
    most_tokens: int,
    *,
    may_pack: bool = True,
) -> Move:
    """Move the tokens that would move even if bytes were much cheaper than they are.

    The price is that at which the present tokens give up as much as they would at the high
    watermark. At a share of it a token only falls where its worth lies as far below what would
    let it stay. Where rows differ, those with more such tokens keep some of them.

    Args:
        choices: What each token may become.
        layout: Where the tokens stand now.
        order: The least useful first, shape ``(batch, kept)``, float: the tokens' worth, or that
            of their blocks.
        keep_share: Share of the bytes that an eviction at the high watermark leaves.
        log_margin: Logarithm of the share of the price, 0 or below.
        most_tokens: Tokens of a row that may move, the least useful ones.
        may_pack: Whether tokens may lose precision; otherwise they go or stay as they are.

    Returns:
        The move; where nothing lies that far below, its layouts are equal.
    """
    worth = choices.log_worth
    present = (layout.steps(worth.device) + 1).expand_as(worth)
    price = lowest_price(choices, keep_share * choices.cost(present))
    wanted = choices.at(price + log_margin)
    if not may_pack:
        wanted = torch.where(wanted > 0, present, wanted)
    chosen = _at_most(wanted, present, order, most_tokens)
    chosen = _alike_in_rows(chosen, present, order)
    counts = torch.bincount(chosen[0], minlength=len(layout.bits) + 1)[1:].tolist()
    return move_of(chosen, worth, layout, counts)


def _at_most(chosen: Tensor, present: Tensor, order: Tensor, most_tokens: int) -> Tensor:
    """Leave all but the least useful of the tokens that move where they are."""
    moves = chosen < present
    return torch.where(_least(moves, order, most_tokens), chosen, present)


def _alike_in_rows(chosen: Tensor, present: Tensor, order: Tensor) -> Tensor:
    """Let as many tokens of every row move from one step to another as of the row with fewest."""
    if len(chosen) == 1:
        return chosen
    is_moving = torch.zeros_like(chosen, dtype=torch.bool)
    for step, choice in {*zip(present[0].tolist(), chosen[0].tolist(), strict=True)}:
        if choice < step:
            is_kind = (present == step) & (chosen == choice)
            is_moving |= _least(is_kind, order, int(is_kind.sum(dim=1).min()))
    return torch.where(is_moving, chosen, present)


def _least(is_open: Tensor, order: Tensor, number: int) -> Tensor:
    """Tell so many of the least useful among these tokens of each row, ``(batch, kept)``, bool."""
    places = order.masked_fill(~is_open, math.inf).argsort(dim=1, stable=True)
    is_first = torch.zeros_like(is_open).scatter_(1, places[:, :number], True)
    return is_open & is_first
