"""Unpack a layer's packed tokens on the CPU, on torch's tensors."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from torch import Tensor

from memdecay.runtime.precision.kernels.cpu.arrays import arrays_of
from memdecay.runtime.precision.kernels.cpu.keys import BLOCK
from memdecay.runtime.precision.kernels.cpu.threads import run_shares
from memdecay.runtime.precision.kernels.cpu.unpacking import unpack_blocks
from memdecay.runtime.precision.kernels.parts import PackedPart

_NOTHING = np.empty((0, 0, 0, 0), dtype=np.float32)


def unpack_into(keys: Tensor | None, values: Tensor | None, parts: Sequence[PackedPart]) -> None:
    """Unpack tokens into the front of tensors, in the order of the parts.

    Args:
        keys: Gets the keys, ``(batch, heads, all tokens, key_dim)``, float32, contiguous; None
            leaves them packed.
        values: Gets the values, ``(batch, heads, all tokens, value_dim)``, the same.
        parts: The packed tokens.
    """
    targets = [_NOTHING if states is None else states.numpy() for states in (keys, values)]
    num_all = max(target.shape[2] for target in targets)
    first_token = 0
    for part in parts:
        arguments = (*arrays_of(part), *targets, num_all, first_token)
        batch_size, num_heads = part.pool.keys.shape[:2]
        num_pieces = batch_size * num_heads * -(-part.num_tokens // BLOCK)

        def share(
            number: int,
            num_shares: int,
            arguments: tuple[object, ...] = arguments,
            num_pieces: int = num_pieces,
        ) -> None:
            first = number * num_pieces // num_shares
            unpack_blocks(first, (number + 1) * num_pieces // num_shares, *arguments)

        run_shares(share, batch_size * num_heads * part.num_tokens)
        first_token += part.num_tokens
