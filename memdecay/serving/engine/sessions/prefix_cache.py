"""Beginnings of conversations that many sessions share, read once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from memdecay.serving.engine.model.state import state_bytes
from memdecay.serving.engine.model.token_states import TokenStates
from memdecay.serving.engine.sessions.blocks import Block, BlockPool
from memdecay.serving.engine.sessions.digests import BLOCK_TOKENS, block_digests
from memdecay.serving.engine.views import TierUse

_PROTECTED_SHARE = 0.8


@dataclass(slots=True, eq=False)
class Prefix:
    """The memory of a beginning, as it was when nothing else had been read.

    Attributes:
        root: The owner, see `root_digest`.
        token_ids: Its tokens, ``(n,)``, int64; n is a multiple of the block size.
        blocks: Their keys and values, which other beginnings may share; none where the tokens
            have lost precision already.
        rest: What else the memory has, its own.
        weight: Mean importance of its tokens; what weighs more stays longer.
        is_kept: Whether it stays in any case, as what the operator asked for does.
        is_protected: Whether a session has begun with it, not too long ago.
        last_used: When it was last used, in lookups of the cache.
    """

    root: bytes
    token_ids: NDArray[np.int64]
    blocks: tuple[Block, ...]
    rest: Mapping[str, Tensor]
    weight: float
    is_kept: bool = False
    is_protected: bool = False
    last_used: int = 0

    def state(self) -> dict[str, Tensor]:
        """Return the memory for `load_memory`, which takes its own copy of it."""
        tokens = TokenStates.join([block.states for block in self.blocks]) if self.blocks else {}
        return {**self.rest, **tokens}

    def is_of(self, root: bytes, token_ids: NDArray[np.int64]) -> bool:
        """Tell whether it belongs to this owner and these tokens begin with it."""
        num_tokens = len(self.token_ids)
        return self.root == root and np.array_equal(self.token_ids, token_ids[:num_tokens])


class PrefixCache:
    """Prefixes by the chained digests of their blocks of tokens, under one root an owner.

    The digests find a prefix, its token ids prove it. Prefixes that begin alike hold the same
    blocks, and a block's bytes count once. None of them ever changes: a session that begins with
    a prefix gets a copy.

    When room is needed, prefixes that no session has begun with go first, then those that weigh
    least for the time that they were not used: a segmented LRU, whose protected segment takes at
    most four fifths of the bytes and gives its least valuable back.

    Args:
        limit_bytes: Bytes of all prefixes together.
    """

    def __init__(self, limit_bytes: int) -> None:
        self._limit_bytes = limit_bytes
        self._prefixes: dict[bytes, list[Prefix]] = {}
        self._pool = BlockPool()
        self._num_lookups = 0
        self.num_queried_tokens = 0
        self.num_hit_tokens = 0

    @property
    def is_on(self) -> bool:
        """Whether anything can be kept."""
        return self._limit_bytes > 0

    @property
    def used_bytes(self) -> int:
        """Bytes of all prefixes, those of shared blocks counted once."""
        return self._pool.used_bytes + sum(state_bytes(prefix.rest) for prefix in self._all())

    def use(self) -> TierUse:
        """Return how many prefixes there are and what they take."""
        return TierUse(len(self._all()), self.used_bytes, self._limit_bytes)

    def find(
        self,
        roots: tuple[bytes, ...],
        token_ids: NDArray[np.int64],
        is_of_use: Callable[[Prefix], bool],
    ) -> Prefix | None:
        """Return the longest prefix of these tokens that one of the owners has.

        Args:
            roots: The owners' digests, see `root_digest`.
            token_ids: ``(n,)``, int64.
            is_of_use: Tells whether a prefix of these tokens may be used.
        """
        self._num_lookups += 1
        self.num_queried_tokens += len(token_ids)
        chains = [self._digests(root, token_ids) for root in roots]
        for block in range(len(chains[0]) - 1, -1, -1):
            for root, chain in zip(roots, chains, strict=True):
                prefix = self._get(root, chain[block], token_ids[: (block + 1) * BLOCK_TOKENS])
                if prefix is not None and is_of_use(prefix):
                    self._note_use(prefix)
                    return prefix
        return None

    def holds(self, root: bytes, token_ids: NDArray[np.int64]) -> bool:
        """Tell whether an owner has exactly this prefix."""
        digests = self._digests(root, token_ids)
        return bool(digests) and self._get(root, digests[-1], token_ids) is not None

    def add(
        self,
        root: bytes,
        token_ids: NDArray[np.int64],
        state: Mapping[str, Tensor],
        weight: float,
        *,
        is_kept: bool = False,
    ) -> bool:
        """Keep a prefix for an owner, who has not exactly this one yet.

        Args:
            root: The owner's digest.
            token_ids: Its tokens, ``(n,)``, int64, one or more whole blocks.
            state: The memory behind them, see `memory_state`; what is not known yet is copied.
            weight: Mean importance of its tokens.
            is_kept: Whether it stays in any case.

        Returns:
            Whether there was room for it.
        """
        digests = self._digests(root, token_ids)
        states, rest = TokenStates.split(state, len(token_ids))
        known = self._known_blocks(root, digests, token_ids, states)
        for block in known:
            self._pool.hold(block)  # Making room must not free them.
        new_states = states.part(len(known) * BLOCK_TOKENS, len(token_ids))
        if not self._make_room(new_states.nbytes + state_bytes(rest), known):
            for block in known:
                self._pool.let_go(block)
            return False
        blocks = [*known]
        for index in range(len(known), len(digests) if states.stacks else 0):
            places = slice(index * BLOCK_TOKENS, (index + 1) * BLOCK_TOKENS)
            own = states.part(places.start, places.stop).copy()
            previous = blocks[-1] if blocks else None
            blocks.append(Block(root, digests[index], previous, token_ids[places].copy(), own))
            self._pool.add(blocks[-1])
            self._pool.hold(blocks[-1])
        own_rest = {name: value.clone() for name, value in rest.items()}
        prefix = Prefix(root, token_ids.copy(), tuple(blocks), own_rest, weight, is_kept)
        prefix.last_used = self._num_lookups
        self._prefixes.setdefault(digests[-1], []).append(prefix)
        return True

    def _digests(self, root: bytes, token_ids: NDArray[np.int64]) -> list[bytes]:
        return block_digests(root, token_ids)

    def _all(self) -> list[Prefix]:
        return [prefix for prefixes in self._prefixes.values() for prefix in prefixes]

    def _get(self, root: bytes, digest: bytes, token_ids: NDArray[np.int64]) -> Prefix | None:
        for prefix in self._prefixes.get(digest, ()):
            if len(prefix.token_ids) == len(token_ids) and prefix.is_of(root, token_ids):
                return prefix
        return None

    def _known_blocks(
        self,
        root: bytes,
        digests: list[bytes],
        token_ids: NDArray[np.int64],
        states: TokenStates,
    ) -> list[Block]:
        """Return the first blocks, as far as they are there already."""
        known: list[Block] = []
        if not states.stacks:
            return known
        for index, digest in enumerate(digests):
            start, stop = index * BLOCK_TOKENS, (index + 1) * BLOCK_TOKENS
            previous = known[-1] if known else None
            block = self._pool.find(
                root, digest, previous, token_ids[start:stop], states.part(start, stop)
            )
            if block is None:
                break
            known.append(block)
        return known

    def _note_use(self, prefix: Prefix) -> None:
        prefix.last_used = self._num_lookups
        prefix.is_protected = True
        self.num_hit_tokens += len(prefix.token_ids)
        protected = sorted((one for one in self._all() if one.is_protected), key=self._value)
        for other in protected:
            if _bytes_of(protected) <= _PROTECTED_SHARE * self._limit_bytes:
                return
            if other is not prefix:
                other.is_protected = False
                protected = [one for one in protected if one.is_protected]

    def _make_room(self, num_bytes: int, held: Sequence[Block]) -> bool:
        """Let prefixes go until there is room; none where even all would not make enough.

        Args:
            num_bytes: Bytes to come.
            held: Blocks that stay, whatever goes.
        """
        kept = [prefix for prefix in self._all() if prefix.is_kept]
        if _bytes_of(kept, held) + num_bytes > self._limit_bytes:
            return False
        for prefix in sorted((one for one in self._all() if not one.is_kept), key=self._rank):
            if self.used_bytes + num_bytes <= self._limit_bytes:
                break
            self._remove(prefix)
        return True

    def _remove(self, prefix: Prefix) -> None:
        digest = self._digests(prefix.root, prefix.token_ids)[-1]
        others = [one for one in self._prefixes[digest] if one is not prefix]
        if others:
            self._prefixes[digest] = others
        else:
            del self._prefixes[digest]
        for block in prefix.blocks:
            self._pool.let_go(block)

    def _rank(self, prefix: Prefix) -> tuple[bool, float]:
        return prefix.is_protected, self._value(prefix)

    def _value(self, prefix: Prefix) -> float:
        return prefix.weight / (1 + self._num_lookups - prefix.last_used)


def _bytes_of(prefixes: Sequence[Prefix], held: Sequence[Block] = ()) -> int:
    """Return the bytes of prefixes and blocks, those of shared blocks counted once."""
    blocks = {id(block): block.states.nbytes for one in prefixes for block in one.blocks}
    blocks |= {id(block): block.states.nbytes for block in held}
    return sum(blocks.values()) + sum(state_bytes(prefix.rest) for prefix in prefixes)
