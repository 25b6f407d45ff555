"""What the cache knows about each kept token: one small table, a column of tensors each."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from memdecay.classifier.regions import NUM_REGIONS, Region, RegionTable

_RATE_HALF_LIFE_TOKENS = 512


@dataclass(frozen=True, slots=True)
class Slots:
    """The kept tokens of every row, oldest first; each change gives a new table.

    Attributes:
        positions: Logical position: how many tokens (padding included) came before this one,
            shape ``(batch, kept)``, int64, ascending.
        importance: Score of the token when fresh, shape ``(batch, kept)``, float32.
        decay: Decay factor per token of age, shape ``(batch, kept)``, float32.
        regions: Most likely region, shape ``(batch, kept)``, int64.
        attention: Running average of the attention mass the token received, shape
            ``(batch, kept)``, float32; NaN until it was first observed.
        region_weight: Mean weight of the regions by their probabilities, see
            `RegionSettings.weights`, shape ``(batch, kept)``, float32; 0 until it is tagged.
        is_template: Whether the token is the chat template's own, such as ``<|im_start|>``, shape
            ``(batch, kept)``, bool.
        is_pinned: Whether the token was pinned: it stays as it is, shape ``(batch, kept)``, bool.
        promoted_at: Tokens seen when attention made it a key decision, shape ``(batch, kept)``,
            int64; 0 where it never did.
        promoted_from: Region that it had before, shape ``(batch, kept)``, int64.
        foresight: What its keys and values add to the logarithm of its expected use, see
            `ForesightHead`, shape ``(batch, kept)``, float32; NaN until it was looked at.
        tokens_per_forward: How many tokens forwards bring, a running average over the tokens,
            float32 without dimensions.
        pad_lengths: Left padding of each row, shape ``(batch,)``, int64.
        num_seen: Tokens seen so far, the same in every row.
    """

    positions: Tensor
    importance: Tensor
    decay: Tensor
    regions: Tensor
    attention: Tensor
    region_weight: Tensor
    is_template: Tensor
    is_pinned: Tensor
    promoted_at: Tensor
    promoted_from: Tensor
    foresight: Tensor
    tokens_per_forward: Tensor
    pad_lengths: Tensor
    num_seen: int = 0

    @classmethod
    def empty(cls, batch_size: int, device: torch.device) -> Slots:
        """Return a table without tokens and without padding."""
        integers = torch.zeros((batch_size, 0), dtype=torch.int64, device=device)
        floats = torch.zeros((batch_size, 0), dtype=torch.float32, device=device)
        pad_lengths = torch.zeros(batch_size, dtype=torch.int64, device=device)
        flags = integers.bool()
        return cls(
            positions=integers,
            importance=floats,
            decay=floats,
            regions=integers,
            attention=floats,
            region_weight=floats,
            is_template=flags,
            is_pinned=flags,
            promoted_at=integers,
            promoted_from=integers,
            foresight=floats,
            tokens_per_forward=torch.ones((), device=device),
            pad_lengths=pad_lengths,
        )

    @property
    def num_kept(self) -> int:
        """Tokens kept in every row, padding included."""
        return self.positions.shape[1]

    @property
    def ages(self) -> Tensor:
        """Tokens seen since each token, shape ``(batch, kept)``, int64; 0 for the newest."""
        return self.num_seen - 1 - self.positions

    @property
    def is_pad(self) -> Tensor:
        """Whether each slot is padding, shape ``(batch, kept)``, bool."""
        return self.positions < self.pad_lengths.unsqueeze(1)

    @property
    def is_promoted(self) -> Tensor:
        """Whether attention made the token a key decision, shape ``(batch, kept)``, bool."""
        return self.promoted_at > 0

    def is_sink(self, num_sinks: int) -> Tensor:
        """Tell the first real tokens of every row, shape ``(batch, kept)``, bool."""
        real_index = self.positions - self.pad_lengths.unsqueeze(1)
        return (real_index >= 0) & (real_index < num_sinks)

    def is_recent(self, num_recent: int) -> Tensor:
        """Tell the newest real tokens of every row, shape ``(batch, kept)``, bool."""
        return (self.ages < num_recent) & ~self.is_pad

    def count_per_region(self) -> Tensor:
        """Count the real tokens of every region over all rows, shape ``(regions,)``, int64."""
        real_regions = self.regions[~self.is_pad]
        return torch.bincount(real_regions, minlength=NUM_REGIONS)

    def append(
        self, num_new: int, table: RegionTable, pins: Sequence[tuple[int, int]] = ()
    ) -> Slots:
        """Add the next tokens, ordinary context until they are tagged.

        Args:
            num_new: How many.
            table: Gives their score and decay.
            pins: First position and the one behind the last of what is pinned.
        """
        if num_new == 0:
            return self
        num_seen = self.num_seen + num_new
        new = torch.arange(self.num_seen, num_seen, device=self.positions.device)
        positions = new.expand(self.positions.shape[0], num_new)
        ordinary = table[Region.ORDINARY_CONTEXT]
        is_pinned = torch.zeros_like(positions, dtype=torch.bool)
        for start, stop in pins:
            is_pinned |= (positions >= start) & (positions < stop)

        def extend(column: Tensor, value: float) -> Tensor:
            return torch.nn.functional.pad(column, (0, num_new), value=value)

        return replace(
            self,
            positions=torch.cat([self.positions, positions], dim=1),
            importance=extend(self.importance, ordinary.initial_score),
            decay=extend(self.decay, ordinary.decay),
            regions=extend(self.regions, Region.ORDINARY_CONTEXT),
            attention=extend(self.attention, math.nan),
            region_weight=extend(self.region_weight, 0.0),
            is_template=extend(self.is_template, False),
            is_pinned=torch.cat([self.is_pinned, is_pinned], dim=1),
            promoted_at=extend(self.promoted_at, 0),
            promoted_from=extend(self.promoted_from, Region.ORDINARY_CONTEXT),
            foresight=extend(self.foresight, math.nan),
            tokens_per_forward=self.tokens_per_forward.lerp(
                torch.full_like(self.tokens_per_forward, num_new),
                1 - 0.5 ** (num_new / _RATE_HALF_LIFE_TOKENS),
            ),
            num_seen=num_seen,
        )

    def keep(self, indices: Tensor) -> Slots:
        """Keep these slots of every row, ``indices`` of shape ``(batch, num_keep)``, ascending."""
        return self._map(lambda column: column.gather(1, indices))

    def drop_newest(self, num_tokens: int) -> Slots:
        """Take the newest tokens back as if they had not been seen.

        Raises:
            ValueError: Some of them were evicted already, so the rows no longer match.
        """
        first = self.num_seen - num_tokens
        kept = self.num_kept - num_tokens
        if kept < 0 or (num_tokens and not bool((self.positions[:, kept] == first).all())):
            raise ValueError(
                f"cannot take back the newest {num_tokens} tokens, some of them were evicted; "
                "set num_recent to the most that will be taken back"
            )
        return replace(self._map(lambda column: column[:, :kept]), num_seen=first)

    def select_rows(self, rows: Tensor) -> Slots:
        """Return these rows in this order, ``rows`` of shape ``(new_batch,)``, int64."""
        rows = rows.to(self.positions.device)
        selected = self._map(lambda column: column.index_select(0, rows))
        return replace(selected, pad_lengths=self.pad_lengths.index_select(0, rows))

    def with_padding(self, pad_lengths: Tensor) -> Slots:
        """Set the left padding of every row, ``pad_lengths`` of shape ``(batch,)``, int64.

        Raises:
            ValueError: The number of rows differs, or tokens were evicted and the padding among
                the tokens seen is not what it was then.
        """
        pad_lengths = pad_lengths.to(self.pad_lengths)
        if pad_lengths.shape != self.pad_lengths.shape:
            raise ValueError(
                f"attention_mask has {len(pad_lengths)} rows, the cache has {len(self.pad_lengths)}"
            )
        known = self.pad_lengths.clamp_max(self.num_seen)
        has_evicted = self.num_kept < self.num_seen
        if has_evicted and not torch.equal(pad_lengths.clamp_max(self.num_seen), known):
            raise ValueError(
                "attention_mask has other padding than before the first eviction; tell the cache "
                "about padding before the forward that brings it"
            )
        return replace(self, pad_lengths=pad_lengths)

    def with_pins(self, start: int, stop: int) -> Slots:
        """Pin the tokens at positions ``start`` to before ``stop`` in every row.

        Raises:
            ValueError: One of them was evicted or has not been seen yet.
        """
        is_meant = (self.positions >= start) & (self.positions < stop)
        if not 0 <= start <= stop or bool((is_meant.sum(dim=1) < stop - start).any()):
            raise ValueError(
                f"cannot pin the tokens from {start} to {stop}, some of them were evicted or have "
                "not been read; pin text before it is forgotten"
            )
        return replace(self, is_pinned=self.is_pinned | is_meant)

    def with_tags(
        self,
        start: int,
        importance: Tensor,
        region_probs: Tensor,
        table: RegionTable,
        weights: Sequence[float] = (0.0,) * NUM_REGIONS,
    ) -> Slots:
        """Set the tags of the tokens at positions ``start`` on that are still kept.

        Args:
            start: Logical position of the first tagged token.
            importance: Score of each token when fresh, shape ``(batch, n)``, float.
            region_probs: Region probabilities, shape ``(batch, n, regions)``, float.
            table: Gives the decay factors that the probabilities average.
            weights: What each region weighs, in the order of `Region`.

        Raises:
            ValueError: A shape does not fit, or a position has not been seen yet.
        """
        self._check_tags(start, importance, region_probs)
        num_tags = importance.shape[1]
        if num_tags == 0:
            return self
        probs = region_probs.to(self.decay)
        of_regions = torch.tensor((table.decays, tuple(weights))).to(probs)
        decay, region_weight = (probs @ of_regions.T).unbind(dim=-1)
        # What attention has found out is not taken back by a tagger that looks again.
        merge = self._merging(start, num_tags, ~self.is_promoted)
        return replace(
            self,
            importance=merge(self.importance, importance),
            decay=merge(self.decay, decay),
            regions=merge(self.regions, probs.argmax(dim=-1)),
            region_weight=merge(self.region_weight, region_weight),
        )

    def with_promoted(self, is_promoted: Tensor, table: RegionTable, weight: float) -> Slots:
        """Make tokens key decisions from now on.

        Args:
            is_promoted: Which, shape ``(batch, kept)``, bool.
            table: Gives the score and the decay of a key decision.
            weight: What the region weighs.
        """
        decision = table[Region.KEY_DECISION]

        def fill(column: Tensor, value: float) -> Tensor:
            return column.masked_fill(is_promoted, value)

        return replace(
            self,
            importance=torch.where(
                is_promoted, self.importance.clamp_min(decision.initial_score), self.importance
            ),
            decay=fill(self.decay, decision.decay),
            regions=fill(self.regions, Region.KEY_DECISION),
            region_weight=fill(self.region_weight, weight),
            promoted_at=fill(self.promoted_at, self.num_seen),
            promoted_from=torch.where(is_promoted, self.regions, self.promoted_from),
        )

    def with_template(self, start: int, is_template: Tensor) -> Slots:
        """Set which of the tokens at positions ``start`` on are the chat template's own.

        Args:
            start: Logical position of the first of them.
            is_template: Shape ``(batch, n)``, bool.
        """
        if not is_template.shape[1]:
            return self
        merge = self._merging(start, is_template.shape[1])
        return replace(self, is_template=merge(self.is_template, is_template))

    def with_attention(self, mass: Tensor, new_weight: float) -> Slots:
        """Blend an observation into the running average.

        Args:
            mass: Attention each slot received, shape ``(batch, kept)``, float.
            new_weight: Weight of the observation, 0 to 1; a first observation counts in full.

        Raises:
            ValueError: The shape is not that of the kept tokens.
        """
        if mass.shape != self.attention.shape:
            raise ValueError(
                f"mass must have the shape of the kept tokens {tuple(self.attention.shape)}, got "
                f"{tuple(mass.shape)}"
            )
        mass = mass.to(self.attention)
        blended = torch.lerp(self.attention, mass, new_weight)
        return replace(self, attention=torch.where(self.attention.isnan(), mass, blended))

    @property
    def num_unforeseen(self) -> int:
        """Newest tokens at which no `ForesightHead` has looked yet."""
        return int(self.foresight[:1].isnan().sum())

    def with_foresight(self, newest: Tensor) -> Slots:
        """Set the foresight of the newest tokens, ``newest`` of shape ``(batch, n)``, float."""
        kept = self.foresight[:, : self.num_kept - newest.shape[1]]
        return replace(self, foresight=torch.cat([kept, newest.to(kept)], dim=1))

    def _map(self, change: Callable[[Tensor], Tensor]) -> Slots:
        return replace(
            self,
            positions=change(self.positions),
            importance=change(self.importance),
            decay=change(self.decay),
            regions=change(self.regions),
            attention=change(self.attention),
            region_weight=change(self.region_weight),
            is_template=change(self.is_template),
            is_pinned=change(self.is_pinned),
            promoted_at=change(self.promoted_at),
            promoted_from=change(self.promoted_from),
            foresight=change(self.foresight),
        )

    def _merging(
        self, start: int, num_tokens: int, is_open: Tensor | None = None
    ) -> Callable[[Tensor, Tensor], Tensor]:
        """Return what puts new values of ``num_tokens`` positions into a column, where open."""
        offsets = self.positions - start
        is_meant = (offsets >= 0) & (offsets < num_tokens)
        if is_open is not None:
            is_meant &= is_open
        offsets = offsets.clamp(0, num_tokens - 1)

        def merge(old: Tensor, new: Tensor) -> Tensor:
            return torch.where(is_meant, new.to(old).gather(1, offsets), old)

        return merge

    def _check_tags(self, start: int, importance: Tensor, region_probs: Tensor) -> None:
        num_rows = self.positions.shape[0]
        if importance.ndim != 2 or importance.shape[0] != num_rows:
            raise ValueError(
                f"importance must have the shape ({num_rows}, n), got {tuple(importance.shape)}"
            )
        if region_probs.shape != (*importance.shape, NUM_REGIONS):
            raise ValueError(
                f"region_probs must have the shape {(*importance.shape, NUM_REGIONS)}, got "
                f"{tuple(region_probs.shape)}"
            )
        end = start + importance.shape[1]
        if not 0 <= start <= end <= self.num_seen:
            raise ValueError(
                f"tags must be for tokens from 0 to {self.num_seen}, got {start} to {end}"
            )
