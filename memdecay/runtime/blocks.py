"""Scores of blocks of neighbouring tokens, so that whole blocks are forgotten."""

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
