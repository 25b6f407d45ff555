"""Which tokens lose precision and which are forgotten, as far as possible by what each is worth."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from memdecay.runtime.precision.layout import Layout, Move

_LOG_PRICE_RANGE = (-40.0, 60.0)
_BISECTION_STEPS = 26
"""Down to differences between prices that float32 no longer tells."""


@dataclass(frozen=True, slots=True)
class Step:
    """What one step of precision costs and what it loses.

    Attributes:
        bits: Its name in the layout.
        cost: Bytes of a token over those of a token at full precision.
        noise: Mean squared error relative to forgetting the token.
    """

    bits: int
    cost: float
    noise: float


FORGOTTEN = 0
"""Bits of a token that is given up."""


def plan_fading(
    log_worth: Tensor,
    layout: Layout,
    steps: Sequence[Step],
    is_protected: Tensor,
    budget: float,
    min_bits: Tensor | None = None,
    is_unforgettable: Tensor | None = None,
    blocks: Tensor | None = None,
) -> Move:
    """Choose each token's step so that the expected loss is least within a budget.

    A token at step s adds worth * noise(s) to the loss and cost(s) to the bytes. At a price for
    bytes each token takes the step that is cheapest for it; the price is the lowest at which all
    fit. So a token that is worth twice as much stays at each step for longer, and none is
    forgotten while a less useful one keeps bits that it does not need. Tokens never move to a
    finer step: what was lost stays lost.

    Rows keep the same number of tokens at every step: the mean of what they would choose alone.

    Args:
        log_worth: Logarithm of the squared expected use, shape ``(batch, kept)``, float, in the
            order of the layout; minus infinity for padding.
        layout: Where the tokens stand now.
        steps: The steps of the layout in its order, coarsest first, the last one full precision.
        is_protected: Tokens that stay as they are, shape ``(batch, kept)``, bool; all of them at
            full precision now.
        budget: What the tokens may cost together, in tokens at full precision.
        min_bits: The coarsest step a token may stand at while it is kept, shape
            ``(batch, kept)``, int64; None allows all.
        is_unforgettable: Tokens that may lose precision but stay, shape ``(batch, kept)``, bool.
        blocks: Tokens of a row with the same number are forgotten together or not at all, as far
            as they may be; those that stay fade each by itself. Shape ``(batch, kept)``, int64, 0
            or above; None decides for each token alone.

    Returns:
        The move. Where even the protected tokens exceed the budget, they alone stay.

    Raises:
        ValueError: The steps are not those of the layout.
    """
    if tuple(step.bits for step in steps) != layout.bits:
        raise ValueError(f"steps must be those of the layout {layout.bits}, got {steps}")
    choices = Choices.of(log_worth, layout, steps, is_protected, min_bits, is_unforgettable, blocks)
    chosen = choices.at(lowest_price(choices, budget))
    counts = _counts(chosen, len(steps))
    return move_of(chosen, log_worth, layout, counts)


@dataclass(frozen=True, slots=True)
class Choices:
    """What each token may become; choice 0 is to be forgotten, choice k the k-th step.

    No token may become finer than it is.

    Attributes:
        log_worth: ``(batch, kept)``.
        noises: What each choice loses, ``(choices,)``.
        costs: What each choice costs a token, ``(batch, kept, choices)``; infinite where it is
            not allowed.
        blocks: See `plan_fading`.
    """

    log_worth: Tensor
    noises: Tensor
    costs: Tensor
    blocks: Tensor | None = None

    @classmethod
    def of(
        cls,
        log_worth: Tensor,
        layout: Layout,
        steps: Sequence[Step],
        is_protected: Tensor,
        min_bits: Tensor | None,
        is_unforgettable: Tensor | None,
        blocks: Tensor | None = None,
    ) -> Choices:
        """Find what is allowed, see `plan_fading`."""
        device = log_worth.device
        noises = torch.tensor([1.0, *(step.noise for step in steps)], device=device)
        costs = torch.tensor([0.0, *(step.cost for step in steps)], device=device)
        choice = torch.arange(len(noises), device=device)
        present = layout.steps(device) + 1  # (kept,)
        is_allowed = (choice <= present[:, None]).expand(*log_worth.shape, -1).clone()
        if min_bits is not None:
            bits = torch.tensor([FORGOTTEN, *layout.bits], device=device)
            is_fine = (bits >= min_bits[..., None]) | (choice == 0) | (choice == present[:, None])
            is_allowed &= is_fine
        if is_unforgettable is not None:
            is_allowed &= ~is_unforgettable[..., None] | (choice > 0)
        is_allowed &= ~is_protected[..., None] | (choice == present[:, None])
        return cls(log_worth, noises, torch.where(is_allowed, costs, math.inf), blocks)

    def at(self, log_price: float) -> Tensor:
        """Return the best choice of each token at a price, ``(batch, kept)``, int64."""
        # Loss over price, so that neither over- nor underflows: exp(worth - price) * noise + cost.
        relative = (self.log_worth - log_price).clamp_(-80.0, 80.0).exp_()
        losses = torch.addcmul(self.costs, relative[..., None], self.noises)
        if self.blocks is None:
            return losses.argmin(dim=-1)
        forgotten, (kept, step) = losses[..., 0], losses[..., 1:].min(dim=-1)
        may_go = forgotten.isfinite()
        gain = torch.where(may_go, kept - forgotten, 0.0)
        by_block = gain.new_zeros((len(gain), int(self.blocks.max()) + 1))
        by_block.scatter_add_(1, self.blocks, gain)
        goes = may_go & (by_block.gather(1, self.blocks) > 0)
        return (step + 1).masked_fill(goes, 0)

    def cost(self, chosen: Tensor) -> float:
        """Return the mean cost of a row."""
        return float(self.costs.gather(2, chosen[..., None]).sum(dim=1).mean())


def lowest_price(choices: Choices, budget: float) -> float:
    """Return the logarithm of the lowest price at which all fit, of the highest if none does.

    Args:
        choices: What each token may become.
        budget: What a row may cost on average, in tokens at full precision.
    """
    low, high = _LOG_PRICE_RANGE
    if choices.cost(choices.at(low)) <= budget:
        return low
    for _ in range(_BISECTION_STEPS):
        middle = (low + high) / 2
        if choices.cost(choices.at(middle)) <= budget:
            high = middle
        else:
            low = middle
    return high


def _counts(chosen: Tensor, num_steps: int) -> list[int]:
    """Return how many tokens of every row stand at each step, ``num_steps`` numbers."""
    one_hot = torch.nn.functional.one_hot(chosen, num_steps + 1)  # (batch, kept, choices)
    # Rounded down, so that no row's budget is exceeded by much where rows differ.
    return (one_hot.sum(dim=1).sum(dim=0) // chosen.shape[0]).tolist()[1:]


def move_of(chosen: Tensor, log_worth: Tensor, layout: Layout, counts: Sequence[int]) -> Move:
    """Fill every step with the tokens that chose it or a finer one, best first.

    Args:
        chosen: What each token chose, see `Choices`, shape ``(batch, kept)``, int64.
        log_worth: Shape ``(batch, kept)``, float.
        layout: Where the tokens stand now.
        counts: Tokens of every row at each step afterwards.
    """
    parts = []
    is_open = torch.ones_like(chosen, dtype=torch.bool)
    for step in range(len(counts), 0, -1):
        # First by choice, so that a single row gets just what it chose; then by worth.
        order = (chosen == step).to(log_worth.dtype) * 4e6 + log_worth.clamp(-1e6, 1e6)
        present = layout.steps(chosen.device) + 1
        order = order.masked_fill(~is_open | (present < step), -math.inf)
        taken = order.topk(counts[step - 1], dim=1).indices
        is_open = is_open.scatter(1, taken, False)
        parts.append(taken.sort(dim=1).values)
    after = Layout(layout.bits, tuple(counts))
    return Move(layout, after, torch.cat(parts[::-1], dim=1))
