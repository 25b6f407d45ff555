"""Attention over packed tokens on the CPU, on torch's tensors."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from memdecay.runtime.precision.kernels.cpu.attention import RUN, attend_runs
from memdecay.runtime.precision.kernels.cpu.packing import packing_of, scale_table
from memdecay.runtime.precision.kernels.cpu.softmax import join_lines
from memdecay.runtime.precision.kernels.cpu.threads import run_shares
from memdecay.runtime.precision.kernels.parts import Attended, PackedPart

Array = npt.NDArray[np.float32]
Runs = Callable[[int, int], None]


def attend_packed(
    query: Tensor, parts: Sequence[PackedPart], scale: float, bias: Tensor | None = None
) -> Attended:
    """Do what `memdecay.runtime.precision.kernels.reference.attend_packed` does.

    Keys are unpacked block by block, values not at all.
    """
    batch_size, num_heads, num_queries, key_dim = query.shape
    num_key_heads = parts[0].pool.keys.shape[1]
    value_dim = parts[0].tier.value.dim
    grouped = query.detach().to(torch.float32).mul(scale)
    grouped = grouped.reshape(batch_size, num_key_heads, -1, key_dim)
    shape = (batch_size, num_key_heads, sum(map(_num_runs, parts)), grouped.shape[2])
    lines = _Lines(shape, value_dim)
    works = []
    first_token = first_line = 0
    for part in parts:
        works.append(_work(grouped, part, bias, first_token, lines, first_line))
        first_token += part.num_tokens
        first_line += _num_runs(part)

    def share(number: int, num_shares: int) -> None:
        for num_pieces, work in works:
            work(number * num_pieces // num_shares, (number + 1) * num_pieces // num_shares)

    run_shares(share, most=sum(num_pieces for num_pieces, _ in works))
    output, lse = lines.joined()
    shape = (batch_size, num_heads, num_queries)
    return Attended(output.view(*shape, value_dim), lse.view(shape))


class _Lines:
    """What each run of tokens gives for each query, ``(batch, key heads, lines, queries)``."""

    def __init__(self, shape: tuple[int, ...], value_dim: int) -> None:
        self.outputs = np.empty((*shape, value_dim), dtype=np.float32)
        self.peaks = np.empty(shape, dtype=np.float32)
        self.masses = np.empty(shape, dtype=np.float32)

    def joined(self) -> tuple[Tensor, Tensor]:
        """Return attention and log-sum-exp, ``(batch * key heads, queries, ...)``."""
        batch_size, num_heads, _, num_queries, value_dim = self.outputs.shape
        output = np.empty((batch_size * num_heads, num_queries, value_dim), dtype=np.float32)
        lse = np.empty((batch_size * num_heads, num_queries), dtype=np.float32)
        join_lines(self.outputs, self.peaks, self.masses, output, lse)
        return torch.from_numpy(output), torch.from_numpy(lse)


def _num_runs(part: PackedPart) -> int:
    return -(-part.num_tokens // RUN)


def _work(
    query: Tensor,
    part: PackedPart,
    bias: Tensor | None,
    first_token: int,
    lines: _Lines,
    first_line: int,
) -> tuple[int, Runs]:
    """Return how many pieces of work a part makes, and what does some of them."""
    key, value = packing_of(part.tier.key), packing_of(part.tier.value)
    basis = key.synthesis @ part.basis.directions.transpose(1, 2)  # (heads, lanes, key_dim)
    shown = torch.empty(0, 0) if bias is None else bias
    arguments = (
        _array(query),
        _array(part.pool.keys),
        key.parts,
        _array(basis),
        _array(part.basis.mean.squeeze(1)),
        _array(part.rotation.cos.squeeze(1)),
        _array(part.rotation.sin.squeeze(1)),
        _array(part.pool.values),
        value.parts,
        _array(value.synthesis),
        scale_table(),
        _array(shown.to(torch.float32)),
        first_token,
        lines.outputs,
        lines.peaks,
        lines.masses,
        first_line,
    )

    def run(first: int, last: int) -> None:
        attend_runs(first, last, *arguments)

    batch_size, num_heads, _, _ = query.shape
    return batch_size * num_heads * _num_runs(part), run


def _array(tensor: Tensor) -> npt.NDArray[np.generic]:
    array: npt.NDArray[np.generic] = tensor.detach().contiguous().numpy()
    return array
