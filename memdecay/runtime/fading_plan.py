"""From what the cache knows of its tokens to the move that makes room."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from memdecay.classifier.regions import NUM_REGIONS
from memdecay.runtime.blocks import share_in_blocks
from memdecay.runtime.config import CacheConfig
from memdecay.runtime.fading import FORGOTTEN, Step, plan_fading
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
from memdecay.runtime.precision.layout import FULL_BITS, Move


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
    log_worth = config.fading.worth_exponent * score_in_text_order(slots, policy)
    log_worth = log_worth.masked_fill(slots.is_pad, -math.inf)
    log_worth = share_in_blocks(log_worth, slots.positions, config.block_tokens)
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

    def plan(worth: Tensor) -> Move:
        layout = layers[0].layout
        return plan_fading(worth, layout, steps, is_exact, budget, min_bits, is_unforgettable)

    costs = [step.cost for step in steps]
    caps = config.regions.max_shares if policy.caps_regions else (None,) * NUM_REGIONS
    return plan_within_caps(plan, log_worth, slots.regions, caps, costs, budget), log_worth


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
    totals = {
        bits: sum(layer.step_bytes[bits] for layer in layers) for bits in layers[0].step_bytes
    }
    noises = layers[0].noises
    return [Step(bits, count / totals[FULL_BITS], noises[bits]) for bits, count in totals.items()]


def _basis_tokens(layers: Sequence[FadingLayer]) -> float:
    """Return what the bases of the keys take, in tokens at full precision of all rows."""
    num_rows = int(layers[0].keys.shape[0])
    full_bytes: int = sum(layer.step_bytes[FULL_BITS] for layer in layers) * num_rows
    return sum(layer.basis_bytes for layer in layers) / full_bytes
