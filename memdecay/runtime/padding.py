"""Left padding, read from an attention mask."""

from __future__ import annotations

import torch
from torch import Tensor


def left_pad_lengths(attention_mask: Tensor) -> Tensor:
    """Count the padding in front of every row.

    Args:
        attention_mask: 1 for real tokens and 0 for padding, shape ``(batch, seq_len)``.

    Returns:
        Pad lengths, shape ``(batch,)``, int64; ``seq_len`` for a row without real tokens.

    Raises:
        ValueError: A row has padding after a real token.
    """
    mask = attention_mask.to(torch.bool)
    pad_lengths = mask.shape[1] - mask.sum(dim=1)
    columns = torch.arange(mask.shape[1], device=mask.device)
    if not torch.equal(mask, columns >= pad_lengths.unsqueeze(1)):
        raise ValueError(
            "attention_mask has padding after real tokens; pad on the left, and give every row of "
            "a batch the same number of new tokens in later turns"
        )
    return pad_lengths
