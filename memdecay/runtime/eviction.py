"""One eviction's decision: a policy's scores, the guards around them, the slots that stay."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

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
    ranking = _ranked(slots, keys, policy, config)
    shares = config.region_shares if policy.caps_regions else 1.0
    return ranking.kept(slots.regions, num_keep, shares), ranking.scores


def choose_kept_early(
    slots: Slots, keys: tuple[Tensor, ...], policy: EvictionPolicy, config: CacheConfig
) -> tuple[Tensor, Tensor]:
    """Choose the slots that stay where only those far below the threshold go, see `EarlyConfig`.

    Rows give up the same number: the fewest that lie so far below in any of them.

    Args:
        slots: The kept tokens.
        keys: As in `choose_kept`.
        policy: Ranks the tokens by a logarithm.
        config: The guards, the watermarks and the early mark.

    Returns:
        As `choose_kept`.
    """
    ranking = _ranked(slots, keys, policy, config)
    is_open = ~ranking.is_protected & ~slots.is_pad
    threshold = _marginal_score(
        ranking.by_block, is_open, 1 - config.low_tokens / config.high_tokens
    )
    is_far = ranking.by_block < threshold[:, None] + math.log(config.early.margin)
    num_far = int((is_far & ~ranking.is_protected).sum(dim=1).min())
    num_keep = slots.num_kept - min(num_far, config.early.most_tokens)
    return ranking.kept(slots.regions, num_keep, 1.0), ranking.scores


def _marginal_score(scores: Tensor, is_open: Tensor, share: float) -> Tensor:
    """Return the worst score that would stay if a share of a row's tokens went, ``(batch,)``."""
    ordered = scores.masked_fill(~is_open, math.inf).sort(dim=1).values
    num_gone = math.ceil(share * scores.shape[1])
    num_open = is_open.sum(dim=1)
    return ordered.gather(1, (num_open - 1).clamp(0, num_gone)[:, None]).squeeze(1)


@dataclass(frozen=True, slots=True)
class _Ranking:
    scores: Tensor
    by_block: Tensor
    is_protected: Tensor

    def kept(self, regions: Tensor, num_keep: int, shares: float | Sequence[float]) -> Tensor:
        return select_kept(self.by_block, regions, self.is_protected, num_keep, shares)


def _ranked(
    slots: Slots, keys: tuple[Tensor, ...], policy: EvictionPolicy, config: CacheConfig
) -> _Ranking:
    """Return every slot's score, also as the mean of its block, and which slots stay."""
    scores = policy.score(slots, keys).masked_fill(slots.is_pad, -math.inf)
    is_protected = slots.is_recent(config.num_recent) | slots.is_pinned
    if policy.protects_sinks:
        is_protected = is_protected | slots.is_sink(config.num_sinks)
    by_block = share_in_blocks(scores, slots.positions, config.block_tokens)
    return _Ranking(scores, by_block, is_protected)
