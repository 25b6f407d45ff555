"""Unpack a layer's packed tokens on the CPU, on torch's tensors."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from memdecay.runtime.precision.kernels.cpu.arrays import arrays_of
from memdecay.runtime.precision.kernels.cpu.keys import BLOCK
from memdecay.runtime.precision.kernels.cpu.threads import run_shares
from memdecay.runtime.precision.kernels.cpu.unpacking import unpack_blocks
from memdecay.runtime.precision.kernels.parts import PackedPart


def unpack_into(keys: Tensor, values: Tensor, parts: Sequence[PackedPart]) -> None:
    """Unpack tokens into the front of tensors, in the order of the parts.

    Args:
        keys: Gets the keys, ``(batch, heads, all tokens, key_dim)``, float32, contiguous.
        values: Gets the values, ``(batch, heads, all tokens, value_dim)``, the same.
        parts: The packed tokens.
    """
    targets = keys.numpy(), values.numpy()
    first_token = 0
    for part in parts:
        arguments = (*arrays_of(part), *targets, first_token)
        batch_size, num_heads = keys.shape[:2]
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
