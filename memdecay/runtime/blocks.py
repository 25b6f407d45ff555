"""Blocks of neighbouring tokens, which are forgotten as a whole."""

from __future__ import annotations

import math

import torch
from torch import Tensor


def share_in_blocks(scores: Tensor, positions: Tensor, block_tokens: int) -> Tensor:
    """Give every token the mean score of what is kept of its block.

    Blocks are those of the text: the tokens at positions ``k * block_tokens`` on. The mean is that
    of the scores, not of their logarithms, so that one token that is read much holds its block.

    Args:
        scores: Logarithm of each token's score, shape ``(batch, kept)``, float; minus infinity
            for padding, which counts for nothing.
        positions: Position of each token, shape ``(batch, kept)``, int64, in any order.
        block_tokens: Tokens of a block; 1 changes nothing.

    Returns:
        Scores of the same shape; padding keeps minus infinity.
    """
    if block_tokens == 1 or not scores.numel():
        return scores
    blocks = positions // block_tokens
    shape = (len(scores), int(blocks.max()) + 1)
    best = scores.new_full(shape, -math.inf).scatter_reduce(1, blocks, scores, "amax")
    best = best.masked_fill(best.isneginf(), 0.0)
    relative = torch.exp(scores - best.gather(1, blocks))
    sums = scores.new_zeros(shape).scatter_add(1, blocks, relative)
    counts = scores.new_zeros(shape).scatter_add(1, blocks, (~scores.isneginf()).to(scores))
    means = best + torch.log(sums / counts.clamp_min(1))
    return means.gather(1, blocks).masked_fill(scores.isneginf(), -math.inf)


def block_numbers(positions: Tensor, is_pad: Tensor, block_tokens: int) -> Tensor | None:
    """Number the blocks that are left, from 0; None where each token is a block.

    Args:
        positions: Position of each token, shape ``(batch, kept)``, int64, in any order.
        is_pad: Which are padding, shape ``(batch, kept)``, bool: a block of its own.
        block_tokens: Tokens of a block.

    Returns:
        Shape ``(batch, kept)``, int64; the tokens of one block have one number.
    """
    if block_tokens == 1:
        return None
    blocks = torch.where(is_pad, -1, positions // block_tokens)
    numbers: Tensor = torch.unique(blocks, return_inverse=True)[1]
    return numbers
