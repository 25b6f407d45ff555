"""Tokens in blocks, as engines keep them, and which blocks a budget has room for."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray

Reduction = Literal["mean", "max"]


def num_blocks(num_tokens: int, block_size: int) -> int:
    """Return how many blocks hold so many tokens; the last one may be partly filled.

    Raises:
        ValueError: ``block_size`` is below 1.
    """
    if block_size < 1:
        raise ValueError(f"block_size must be 1 or more, got {block_size}")
    return -(-num_tokens // block_size)


def block_scores(
    scores: NDArray[np.float64], block_size: int, reduction: Reduction = "mean"
) -> NDArray[np.float64]:
    """Return a score for each block of neighbouring tokens.

    Args:
        scores: Logarithm of each token's score, ``(n,)``, float64.
        block_size: Tokens of a block; 1 returns the tokens' own scores.
        reduction: ``mean`` of the scores themselves (not of their logarithms), so that one good
            token does not carry a block, or ``max``, so that it does.

    Returns:
        Logarithm of each block's score, ``(num_blocks(n, block_size),)``, float64.

    Raises:
        ValueError: ``block_size`` is below 1.
    """
    firsts = np.arange(num_blocks(scores.size, block_size)) * block_size
    if not firsts.size:
        return np.zeros(0)
    best = np.maximum.reduceat(scores, firsts)
    if reduction == "max":
        return np.asarray(best, np.float64)
    counts = np.diff([*firsts, scores.size])
    # Scores span many orders of magnitude: taken relative to the block's best.
    relative = np.exp(scores - np.repeat(best, counts))
    return np.asarray(best + np.log(np.add.reduceat(relative, firsts) / counts), np.float64)


def select_blocks(
    scores: NDArray[np.float64],
    block_size: int,
    budget_tokens: int,
    is_protected: NDArray[np.bool_] | None = None,
    reduction: Reduction = "mean",
) -> NDArray[np.int64]:
    """Choose the blocks that stay: those with protected tokens, then the best.

    Args:
        scores: Logarithm of each token's score, ``(n,)``, float64.
        block_size: Tokens of a block.
        budget_tokens: Room; every block takes a whole block of it.
        is_protected: Tokens that stay, ``(n,)``, bool; None for none.
        reduction: See `block_scores`.

    Returns:
        Numbers of the blocks that stay, ascending, int64. Among equals the newer one stays.

    Raises:
        ValueError: A shape or a size is wrong, or the protected blocks alone exceed the budget.
    """
    by_block = block_scores(scores, block_size, reduction)
    room = budget_tokens // block_size
    must = np.zeros(by_block.size, np.bool_)
    if is_protected is not None:
        if is_protected.shape != scores.shape:
            raise ValueError(
                f"is_protected must have the shape of the scores {scores.shape}, got "
                f"{is_protected.shape}"
            )
        must[np.flatnonzero(is_protected) // block_size] = True
    if must.sum() > room:
        raise ValueError(
            f"{must.sum()} blocks of {block_size} tokens are protected, but a budget of "
            f"{budget_tokens} tokens holds {max(room, 0)}; raise it or protect less"
        )
    newest_first = np.arange(by_block.size)[::-1]
    order = np.lexsort((-by_block[newest_first], ~must[newest_first]))
    return np.sort(newest_first[order][:room])
