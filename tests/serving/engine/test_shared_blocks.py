"""Whatever is kept, found and given up: who holds which block, and what that takes."""

from __future__ import annotations

import numpy as np
import torch
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from numpy.typing import NDArray
from torch import Tensor

from memdecay.serving.engine.model.state import state_bytes
from memdecay.serving.engine.sessions.digests import BLOCK_TOKENS, block_digests, root_digest
from memdecay.serving.engine.sessions.prefix_cache import Prefix, PrefixCache

ROOTS = tuple(root_digest(name) for name in ("ann", "ben", "public"))
LIMIT = 4000
_OWNERS = st.integers(0, len(ROOTS) - 1)
_BLOCKS = st.lists(st.integers(0, 1), min_size=1, max_size=4)
LAST_PORTION = 2
_PORTIONS = st.integers(0, LAST_PORTION)


def tokens_of(blocks: list[int]) -> NDArray[np.int64]:
    return np.repeat(np.array(blocks, np.int64), BLOCK_TOKENS)


def state_of(owner: int, blocks: list[int], portion: int, has_faded: bool) -> dict[str, Tensor]:
    """Return a memory: keys depend on all tokens before, and on how they were read.

    Those of the last portion are alike whatever was read, as no model's are.
    """
    seen = tokens_of(blocks).cumsum() * 10.0 + owner * 1000 + portion
    if portion == LAST_PORTION:
        seen = np.zeros_like(seen)
    keys = torch.from_numpy(seen).to(torch.float32).reshape(1, 1, -1, 1)
    if has_faded:
        keys = keys[:, :, :-1]
    return {
        "cache.layers.0.keys": keys.clone(),
        "cache.layers.0.values": -keys,
        "cache.layers.1.keys": keys.repeat(1, 1, 1, 2),
        "cache.slots.importance": torch.full((1, seen.size), float(portion)),
    }


class CollidingCache(PrefixCache):
    """A cache whose digests are of one bit."""

    def _digests(self, root: bytes, token_ids: NDArray[np.int64]) -> list[bytes]:
        return [bytes([digest[0] & 1]) for digest in block_digests(root, token_ids)]


class SharedBlocks(RuleBasedStateMachine):
    """Owners whose prefixes begin alike or not, kept in a cache too small for all."""

    def __init__(self) -> None:
        super().__init__()
        self.cache: PrefixCache = self.make_cache()
        self.given: dict[int, tuple[Prefix, dict[str, Tensor]]] = {}

    def make_cache(self) -> PrefixCache:
        return PrefixCache(LIMIT)

    @rule(
        owner=_OWNERS,
        blocks=_BLOCKS,
        portion=_PORTIONS,
        has_faded=st.booleans(),
        weight=st.floats(0.1, 10.0),
        is_kept=st.sampled_from([False] * 7 + [True]),
    )
    def keep(
        self,
        owner: int,
        blocks: list[int],
        portion: int,
        has_faded: bool,
        weight: float,
        is_kept: bool,
    ) -> None:
        root, token_ids = ROOTS[owner], tokens_of(blocks)
        if self.cache.holds(root, token_ids):
            return
        state = state_of(owner, blocks, portion, has_faded)
        before = self.cache.used_bytes
        if not self.cache.add(root, token_ids, state, weight, is_kept=is_kept):
            assert before <= LIMIT
            return
        (prefix,) = (
            one
            for one in self.cache._all()
            if one.is_of(root, token_ids) and len(one.token_ids) == len(token_ids)
        )
        self.given[id(prefix)] = prefix, {name: part.clone() for name, part in state.items()}
        for part in state.values():
            part.fill_(-1)  # The session goes on, and overwrites what it gave.

    @rule(owner=_OWNERS, blocks=_BLOCKS)
    def begin(self, owner: int, blocks: list[int]) -> None:
        roots, token_ids = (ROOTS[owner], ROOTS[-1]), tokens_of(blocks)
        lengths = [
            len(prefix.token_ids)
            for prefix in self.cache._all()
            if len(prefix.token_ids) <= len(token_ids)
            and any(prefix.is_of(root, token_ids) for root in roots)
        ]
        found = self.cache.find(roots, token_ids, lambda _: True)
        assert (0 if found is None else len(found.token_ids)) == max(lengths, default=0)
        if found is not None:
            assert found.root in roots
            np.testing.assert_array_equal(found.token_ids, token_ids[: len(found.token_ids)])
            for name, part in found.state().items():
                if name.endswith(("keys", "values")) and found.blocks:
                    part.fill_(-2)  # A session's own copy, which it evicts from.

    @invariant()
    def holders_are_counted(self) -> None:
        prefixes = self.cache._all()
        for block in self.cache._pool:
            holders = [one for one in prefixes if any(own is block for own in one.blocks)]
            assert block.num_holders == len(holders) > 0
        held = {id(block) for one in prefixes for block in one.blocks}
        assert held == {id(block) for block in self.cache._pool}

    @invariant()
    def blocks_are_of_the_prefixs_owner_and_tokens(self) -> None:
        for prefix in self.cache._all():
            if prefix.blocks:
                token_ids = np.concatenate([block.token_ids for block in prefix.blocks])
                np.testing.assert_array_equal(token_ids, prefix.token_ids)
            assert {block.root for block in prefix.blocks} <= {prefix.root}

    @invariant()
    def bytes_of_distinct_blocks_are_counted_once(self) -> None:
        blocks = sum(block.states.nbytes for block in self.cache._pool)
        rest = sum(state_bytes(prefix.rest) for prefix in self.cache._all())
        assert self.cache.used_bytes == self.cache.use().used_bytes == blocks + rest <= LIMIT

    @invariant()
    def no_block_is_there_twice(self) -> None:
        blocks = list(self.cache._pool)
        for index, block in enumerate(blocks):
            for other in blocks[:index]:
                is_like = other.is_like(block.root, block.previous, block.token_ids)
                assert not (is_like and other.states.equals(block.states))

    @invariant()
    def nothing_that_is_shared_ever_changes(self) -> None:
        for prefix in self.cache._all():
            own, given = self.given[id(prefix)]
            assert own is prefix
            torch.testing.assert_close(prefix.state(), given, rtol=0.0, atol=0.0)


class CollidingBlocks(SharedBlocks):
    """The same, found by digests that most beginnings have in common."""

    def make_cache(self) -> PrefixCache:
        return CollidingCache(LIMIT)


_SETTINGS = settings(max_examples=40, stateful_step_count=25, deadline=None)
TestSharedBlocks = SharedBlocks.TestCase
TestSharedBlocks.settings = _SETTINGS
TestCollidingBlocks = CollidingBlocks.TestCase
TestCollidingBlocks.settings = _SETTINGS
