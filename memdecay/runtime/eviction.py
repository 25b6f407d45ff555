"""One eviction's decision: a policy's scores, the guards around them, the slots that stay."""

from __future__ import annotations

import math

from torch import Tensor

from memdecay.runtime.blocks import share_in_blocks
from memdecay.runtime.config import CacheConfig
from memdecay.runtime.metadata import Slots
from memdecay.runtime.policies import EvictionPolicy
from memdecay.runtime.selection import select_kept


def choose_kept(
    slots: Slots,
    keys: tuple[Tensor, ...],
    policy: EvictionPolicy,
    config: CacheConfig,
    num_keep: int,
) -> tuple[Tensor, Tensor]:
    """Choose the slots that stay.

    Padding goes before any real token: the attention mask finds a kept token's column by counting
    back from the newest, which is right only while a row's remaining padding is in front.

    Args:
        slots: The kept tokens.
        keys: Keys of every full-attention layer, see `EvictionPolicy.score`.
        policy: Ranks the tokens.
        config: Number of sinks and recent tokens, and the regions' shares.
        num_keep: Slots that stay in each row.

    Returns:
        Indices of the slots that stay, ascending, shape ``(batch, num_keep)``, int64, and every
        slot's score, shape ``(batch, kept)``, float.
    """
    scores = policy.score(slots, keys).masked_fill(slots.is_pad, -math.inf)
    is_protected = slots.is_recent(config.num_recent) | slots.is_pinned
    if policy.protects_sinks:
        is_protected = is_protected | slots.is_sink(config.num_sinks)
    shares = config.region_shares if policy.caps_regions else 1.0
    by_block = share_in_blocks(scores, slots.positions, config.block_tokens)
    return select_kept(by_block, slots.regions, is_protected, num_keep, shares), scores
