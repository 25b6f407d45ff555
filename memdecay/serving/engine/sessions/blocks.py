"""Blocks of tokens that several beginnings of conversations share."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from memdecay.serving.engine.model.token_states import TokenStates


@dataclass(slots=True, eq=False)
class Block:
    """Some neighbouring tokens of a beginning; never changed.

    Attributes:
        root: The owner, see `root_digest`.
        digest: Names the beginning that ends with this block; proves nothing.
        previous: The block before it; None for the first.
        token_ids: ``(n,)``, int64.
        states: The tokens' keys and values, which nobody else has.
        num_holders: Beginnings that hold it.
    """

    root: bytes
    digest: bytes
    previous: Block | None
    token_ids: NDArray[np.int64]
    states: TokenStates
    num_holders: int = 0

    def is_like(self, root: bytes, previous: Block | None, token_ids: NDArray[np.int64]) -> bool:
        """Tell whether this is a block of these tokens, behind these, for this owner."""
        is_same_place = self.root == root and self.previous is previous
        return is_same_place and np.array_equal(self.token_ids, token_ids)


class BlockPool:
    """Blocks that are there once, whoever holds them, and go with their last holder.

    A block is found by its digest and shared where owner, tokens, all tokens before it, and keys
    and values are the same to the last bit. The same tokens may have other bits where they were
    read in other portions; then they are another block.
    """

    def __init__(self) -> None:
        self._blocks: dict[bytes, list[Block]] = {}
        self.used_bytes = 0

    def __iter__(self) -> Iterator[Block]:
        """Yield the blocks."""
        for blocks in self._blocks.values():
            yield from blocks

    def find(
        self,
        root: bytes,
        digest: bytes,
        previous: Block | None,
        token_ids: NDArray[np.int64],
        states: TokenStates,
    ) -> Block | None:
        """Return the block that is just this; see `Block` for the arguments."""
        for block in self._blocks.get(digest, ()):
            if block.is_like(root, previous, token_ids) and block.states.equals(states):
                return block
        return None

    def add(self, block: Block) -> None:
        """Take in a block that `find` does not find."""
        self._blocks.setdefault(block.digest, []).append(block)
        self.used_bytes += block.states.nbytes

    def hold(self, block: Block) -> None:
        """Note one more holder."""
        block.num_holders += 1

    def let_go(self, block: Block) -> None:
        """Note that a holder is gone, and free the block if it was the last."""
        block.num_holders -= 1
        if block.num_holders:
            return
        others = [one for one in self._blocks[block.digest] if one is not block]
        if others:
            self._blocks[block.digest] = others
        else:
            del self._blocks[block.digest]
        self.used_bytes -= block.states.nbytes
