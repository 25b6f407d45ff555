"""Tokens that later ones keep attending to: candidates for key decisions, found by attention."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

import torch
from torch import Tensor

from memdecay.classifier.regions import Region, RegionTable
from memdecay.runtime.config import CacheConfig
from memdecay.runtime.metadata import Slots
from memdecay.runtime.policies.attention import relative_attention

CANDIDATES = (Region.TOOL_SUMMARY, Region.RECENT_DIALOGUE, Region.ORDINARY_CONTEXT)
"""Regions whose tokens may become key decisions."""


@dataclass(frozen=True, slots=True)
class LateTag:
    """Neighbouring tokens that attention made key decisions at one moment and that are kept.

    Attributes:
        start: Position of the first.
        stop: Position behind the last.
        at: Tokens seen when it happened.
        region: Their region before.
        attention: The mean attention that they get now, over the mean of all kept tokens.
    """

    start: int
    stop: int
    at: int
    region: Region
    attention: float


def promote(slots: Slots, config: CacheConfig, table: RegionTable) -> Slots:
    """Make the tokens that get most attention key decisions, within the share for them.

    A token qualifies by age, region and attention, see `LateTaggingConfig`; sinks and the chat
    template's tokens draw attention for other reasons and never do.

    Args:
        slots: The kept tokens.
        config: How many and from when on.
        table: Gives the score and the decay of a key decision.
    """
    late = config.late_tagging
    if not late.max_share or not slots.num_kept:
        return slots
    attention = relative_attention(slots)
    is_candidate = (
        torch.isin(slots.regions, torch.tensor(CANDIDATES, device=slots.regions.device))
        & (attention >= late.min_attention)
        & (slots.ages >= late.min_age_tokens)
        & ~(slots.is_sink(config.num_sinks) | slots.is_template | slots.is_pad)
    )
    room = int(late.max_share * config.budget_tokens) - slots.is_promoted.sum(dim=1)
    chosen = is_candidate & (_rank(attention, is_candidate) < room.unsqueeze(1))
    if not bool(chosen.any()):
        return slots
    return slots.with_promoted(chosen, table, config.regions.weights[Region.KEY_DECISION])


def late_tags(slots: Slots, row: int = 0) -> list[LateTag]:
    """Return what attention made key decisions in a row, in the order of the text."""
    places = slots.is_promoted[row].nonzero().squeeze(1)
    places = places[slots.positions[row, places].argsort()]
    positions, at = slots.positions[row, places], slots.promoted_at[row, places]
    regions, attention = slots.promoted_from[row, places], relative_attention(slots)[row, places]
    is_edge = (positions.diff() != 1) | (at.diff() != 0) | (regions.diff() != 0)
    edges = [0, *(is_edge.nonzero().squeeze(1) + 1).tolist(), len(places)]
    return [
        LateTag(
            int(positions[first]),
            int(positions[last - 1]) + 1,
            int(at[first]),
            Region(int(regions[first])),
            float(attention[first:last].mean()),
        )
        for first, last in itertools.pairwise(edges)
        if last > first
    ]


def _rank(attention: Tensor, is_candidate: Tensor) -> Tensor:
    """Number each row's candidates from the most attended one on, ``(batch, kept)``, int64."""
    order = attention.masked_fill(~is_candidate, -math.inf).argsort(dim=1, descending=True)
    ranks = torch.arange(attention.shape[1], device=attention.device).expand_as(order)
    return torch.empty_like(order).scatter_(1, order, ranks)
