"""Attention over a layer's tokens as they are stored, on the CPU and on torch's tensors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from memdecay.runtime.precision.kernels.cpu.arrays import (
    NO_BIAS,
    NO_LOGITS,
    array_of,
    arrays_of,
    flat,
)
from memdecay.runtime.precision.kernels.cpu.attention import (
    RUN,
    attend_exact_runs,
    attend_packed_runs,
)
from memdecay.runtime.precision.kernels.cpu.softmax import join_lines
from memdecay.runtime.precision.kernels.cpu.threads import run_shares
from memdecay.runtime.precision.kernels.parts import Attended, ExactPart, PackedPart


def attend_packed(
    query: Tensor,
    parts: Sequence[PackedPart],
    scale: float,
    bias: Tensor | None = None,
    exact: ExactPart | None = None,
    logits: Tensor | None = None,
) -> Attended:
    """Do what `memdecay.runtime.precision.kernels.reference.attend_packed` does.

    Keys are unpacked block by block, values not at all.

    Args:
        query: See there, as for the others.
        parts: The packed tokens.
        scale: Factor on the logits.
        bias: Added to the logits, ``(batch, n)`` for all tokens.
        exact: Tokens at full precision that stand behind the packed ones, if any.
        logits: Gets the scaled logits without the bias, ``(batch, num_attention_heads, q, n)``,
            contiguous, float32; None asks for none.
    """
    batch_size, num_heads, num_queries, key_dim = query.shape
    num_key_heads = parts[0].pool.keys.shape[1]
    scaled = query.detach().to(torch.float32) * scale
    work = _Work(
        array_of(scaled.reshape(batch_size, num_key_heads, -1, key_dim)),
        NO_BIAS if bias is None else array_of(bias.to(torch.float32)),
        NO_LOGITS
        if logits is None
        else logits.view(*scaled.shape[:1], num_key_heads, -1, logits.shape[3]).numpy(),
        [*(part.num_tokens for part in parts), *([exact.num_tokens] if exact else [])],
        parts[0].tier.value.dim,
    )
    for part in parts:
        work.add(attend_packed_runs, arrays_of(part), part.num_tokens)
    if exact is not None:
        work.add(attend_exact_runs, _arrays_of_exact(exact), exact.num_tokens)
    output, lse = work.done()
    shape = (batch_size, num_heads, num_queries)
    return Attended(output.view(*shape, -1), lse.view(shape))


class _Work:
    """Runs of tokens, of which each gives a line of results for each query of a head.

    Args:
        query: ``(batch, key heads, queries, key_dim)``.
        bias: ``(batch, all tokens)``, or empty.
        logits: Gets what the softmax is taken of, ``(batch, key heads, queries, all tokens)``, or
            empty.
        counts: Tokens of each part.
        value_dim: Width of a value.
    """

    def __init__(
        self, query: Any, bias: Any, logits: Any, counts: list[int], value_dim: int
    ) -> None:
        num_lines = sum(map(_num_runs, counts))
        shape = (*query.shape[:2], num_lines, query.shape[2])
        self._query, self._bias, self._logits = query, bias, logits
        self._lines = (
            np.empty((*shape, value_dim), dtype=np.float32),
            np.empty(shape, dtype=np.float32),
            np.empty(shape, dtype=np.float32),
        )
        self._calls: list[tuple[Callable[..., None], tuple[Any, ...], int]] = []
        self._num_tokens = self._num_lines = 0

    def add(self, kernel: Callable[..., None], arrays: tuple[Any, ...], num_tokens: int) -> None:
        """Take the next part's tokens."""
        arguments = (
            self._query, *arrays, self._bias, self._num_tokens, *self._lines, self._num_lines,
            self._logits,
        )  # fmt: skip
        num_runs = _num_runs(num_tokens)
        self._calls.append((kernel, arguments, self._num_heads * num_runs))
        self._num_tokens += num_tokens
        self._num_lines += num_runs

    def done(self) -> tuple[Tensor, Tensor]:
        """Do the work; return attention and log-sum-exp, ``(batch * heads, queries, ...)``."""
        run_shares(self._share, self._num_heads * self._num_tokens)
        outputs, peaks, masses = self._lines
        num_queries, value_dim = outputs.shape[3:]
        joined = np.empty((self._num_heads, num_queries, value_dim), dtype=np.float32)
        lse = np.empty((self._num_heads, num_queries), dtype=np.float32)
        join_lines(outputs, peaks, masses, joined, lse)
        return torch.from_numpy(joined), torch.from_numpy(lse)

    @property
    def _num_heads(self) -> int:
        """Key heads of all rows."""
        return int(self._query.shape[0] * self._query.shape[1])

    def _share(self, number: int, num_shares: int) -> None:
        for kernel, arguments, num_pieces in self._calls:
            first = number * num_pieces // num_shares
            kernel(first, (number + 1) * num_pieces // num_shares, *arguments)


def _num_runs(num_tokens: int) -> int:
    return -(-num_tokens // RUN)


def _arrays_of_exact(exact: ExactPart) -> tuple[Any, ...]:
    keys, values = (_line_by_line(states) for states in (exact.keys, exact.values))
    return (
        flat(keys),
        (keys.stride(0), keys.stride(1)),
        flat(values),
        (values.stride(0), values.stride(1)),
        exact.num_tokens,
    )


def _line_by_line(states: Tensor) -> Tensor:
    """Return states in a dtype that kernels know, with each token's numbers behind the last's."""
    if states.dtype not in (torch.float32, torch.bfloat16):
        states = states.to(torch.float32)
    is_in_lines = states.stride(3) == 1 and states.stride(2) == states.shape[3]
    return states if is_in_lines else states.contiguous()
