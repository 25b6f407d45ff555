"""From what the cache knows of its tokens to the move that makes room."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from memdecay.classifier.regions import NUM_REGIONS
from memdecay.runtime.blocks import block_numbers, share_in_blocks
from memdecay.runtime.config import CacheConfig
from memdecay.runtime.fading import FORGOTTEN, Choices, Step, plan_fading
from memdecay.runtime.fading_early import plan_far_below
from memdecay.runtime.fading_layer import FadingLayer
from memdecay.runtime.fading_regions import (
    floor_tokens,
    least_costs,
    plan_within_caps,
    region_min_bits,
)
from memdecay.runtime.guards import num_safe
from memdecay.runtime.metadata import Slots
from memdecay.runtime.policies import EvictionPolicy
from memdecay.runtime.precision.layout import FULL_BITS, Layout, Move


@dataclass(frozen=True, slots=True)
class _Prospects:
    """What the guards and the regions leave open.

    Attributes:
        log_worth: Logarithm of what each token is worth, ``(batch, kept)``, float32.
        layout: Where the tokens stand.
        steps: What the steps cost and lose.
        is_exact: Tokens that stay at full precision, ``(batch, kept)``, bool.
        min_bits: See `plan_fading`.
        is_unforgettable: See `plan_fading`.
        budget: What all kept tokens may cost, in tokens at full precision.
        blocks: See `plan_fading`.
    """

    log_worth: Tensor
    layout: Layout
    steps: list[Step]
    is_exact: Tensor
    min_bits: Tensor
    is_unforgettable: Tensor
    budget: float
    blocks: Tensor | None

    def plan(self, log_worth: Tensor) -> Move:
        """Plan with this worth in place of the tokens' own."""
        return plan_fading(
            log_worth,
            self.layout,
            self.steps,
            self.is_exact,
            self.budget,
            self.min_bits,
            self.is_unforgettable,
            self.blocks,
        )

    def choices(self) -> Choices:
        """Return what each token may become."""
        return Choices.of(
            self.log_worth,
            self.layout,
            self.steps,
            self.is_exact,
            self.min_bits,
            self.is_unforgettable,
            self.blocks,
        )


def plan_move(
    slots: Slots,
    policy: EvictionPolicy,
    config: CacheConfig,
    layers: Sequence[FadingLayer],
    room: int,
) -> tuple[Move, Tensor]:
    """Choose which tokens lose precision and which go, so that new ones find room.

    Args:
        slots: The kept tokens, in the layers' layout.
        policy: Ranks the tokens; its score counts as the logarithm of a token's expected use.
        config: The budget and the guards.
        layers: All layers that fade.
        room: Tokens at full precision for which room is needed.

    Returns:
        The move, and the logarithm of what each token is worth, ``(batch, kept)``, float32.

    Raises:
        ModelError: The heads' width can't be quantized.
    """
    prospects = _prospects(slots, policy, config, layers, room)
    worth, budget = prospects.log_worth, prospects.budget
    costs = [step.cost for step in prospects.steps]
    caps = config.regions.max_shares if policy.caps_regions else (None,) * NUM_REGIONS
    move = plan_within_caps(prospects.plan, worth, slots.regions, caps, costs, budget)
    return move, worth


def plan_early_move(
    slots: Slots, policy: EvictionPolicy, config: CacheConfig, layers: Sequence[FadingLayer]
) -> tuple[Move, Tensor]:
    """Choose the tokens far below the threshold, see `EarlyConfig`.

    Caps of regions play no part: they make room for others, and there is room.

    Args:
        slots: As in `plan_move`.
        policy: As in `plan_move`.
        config: The budget, the guards and the early mark.
        layers: As in `plan_move`.

    Returns:
        As `plan_move`; where nothing lies that far below, the move's layouts are equal.

    Raises:
        ModelError: The heads' width can't be quantized.
    """
    room = config.fading_room_tokens
    prospects = _prospects(slots, policy, config, layers, room)
    keep_share = 1 - room / config.high_tokens
    log_margin = config.fading.worth_exponent * math.log(config.early.margin)
    worth = prospects.log_worth
    by_block = share_in_blocks(worth, slots.positions, config.block_tokens)
    move = plan_far_below(
        prospects.choices(),
        prospects.layout,
        by_block,
        keep_share,
        log_margin,
        config.early.most_tokens,
        # The first token that is packed costs the bytes of the keys' basis, which is many tokens'.
        may_pack=all(layer.has_basis for layer in layers),
    )
    return move, worth


def room_gained(move: Move, layers: Sequence[FadingLayer]) -> int:
    """Return the tokens at full precision that fit the bytes which a move frees, 0 or below.

    Args:
        move: What changes.
        layers: All layers that fade, before the move.
    """
    num_rows = int(layers[0].keys.shape[0])
    total = _total_bytes(layers)
    counts = zip(move.before.bits, move.before.counts, move.after.counts, strict=True)
    freed = num_rows * sum(total[bits] * (before - after) for bits, before, after in counts)
    if move.after.num_faded:
        freed -= sum(layer.basis_bytes for layer in layers if not layer.has_basis)
    return freed // (total[FULL_BITS] * num_rows)


def _prospects(
    slots: Slots,
    policy: EvictionPolicy,
    config: CacheConfig,
    layers: Sequence[FadingLayer],
    room: int,
) -> _Prospects:
    log_worth = config.fading.worth_exponent * score_in_text_order(slots, policy)
    log_worth = log_worth.masked_fill(slots.is_pad, -math.inf)
    is_newest = slots.is_recent(config.fading.num_exact)
    is_exact = is_newest | slots.is_sink(config.num_sinks) | slots.is_pinned
    is_recent = slots.is_recent(config.num_recent)
    steps = _steps(layers)
    budget = _limit(slots, config, room) - room - _basis_tokens(layers)
    min_bits = torch.maximum(
        torch.where(is_recent, config.fading.min_recent_bits, FORGOTTEN),
        region_min_bits(slots.regions, config.regions.min_bits),
    )
    is_unforgettable = is_recent | _region_floors(
        log_worth, slots, config, is_exact, is_recent, least_costs(min_bits, steps), budget
    )
    blocks = block_numbers(slots.positions, slots.is_pad, config.block_tokens)
    layout = layers[0].layout
    return _Prospects(
        log_worth, layout, steps, is_exact, min_bits, is_unforgettable, budget, blocks
    )


def _limit(slots: Slots, config: CacheConfig, room: int) -> int:
    """Return the tokens at full precision that the cache may take, the room included.

    That is the high watermark without what is set aside for packing ahead, unless the protected
    tokens and the room need more.
    """
    needed = room + min(slots.num_kept, num_safe(slots, config))
    set_aside = math.ceil(config.fading.staging_share * config.budget_tokens)
    return min(config.budget_tokens, max(config.high_tokens - set_aside, needed))


def _region_floors(
    log_worth: Tensor,
    slots: Slots,
    config: CacheConfig,
    is_exact: Tensor,
    is_recent: Tensor,
    costs: Tensor,
    budget: float,
) -> Tensor:
    """Find what the regions' floors keep of the tokens that are not protected anyway."""
    is_safe = is_exact | is_recent
    taken = torch.where(is_exact, 1.0, costs).masked_fill(~is_safe, 0.0).sum(dim=1)
    return floor_tokens(
        log_worth.masked_fill(is_safe, -math.inf),
        slots.regions,
        costs,
        config.regions.min_shares,
        budget - float(taken.max()),
    )


def score_in_text_order(slots: Slots, policy: EvictionPolicy) -> Tensor:
    """Score slots that are no longer in the order of the text: policies look at neighbours."""
    order = slots.positions.argsort(dim=1)
    scores = policy.score(slots.keep(order), ())
    return torch.empty_like(scores).scatter_(1, order, scores)


def _steps(layers: Sequence[FadingLayer]) -> list[Step]:
    """Add the layers' bytes up and put them in proportion to full precision."""
    totals = _total_bytes(layers)
    noises = layers[0].noises
    return [Step(bits, count / totals[FULL_BITS], noises[bits]) for bits, count in totals.items()]


def _basis_tokens(layers: Sequence[FadingLayer]) -> float:
    """Return what the bases of the keys take, in tokens at full precision of all rows."""
    num_rows = int(layers[0].keys.shape[0])
    full_bytes = _total_bytes(layers)[FULL_BITS] * num_rows
    return sum(layer.basis_bytes for layer in layers) / full_bytes


def _total_bytes(layers: Sequence[FadingLayer]) -> dict[int, int]:
    """Return the bytes of one token of one row at each step in all layers."""
    return {bits: sum(layer.step_bytes[bits] for layer in layers) for bits in layers[0].step_bytes}
