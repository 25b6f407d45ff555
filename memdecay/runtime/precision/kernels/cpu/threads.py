"""Shares of a kernel's work for as many threads as torch uses.

Python's own threads, since compiled kernels release the interpreter's lock: numba's would be a
second pool beside torch's, and its plain one ends the process if two threads start it at once.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import torch

Share = Callable[[int, int], None]
"""Does one share of the work: takes the share's number and the number of shares."""


_LEAST_TOKENS = 2048
"""Below this many tokens of a head, waking a thread takes longer than what it would do."""


def run_shares(share: Share, num_tokens: int) -> None:
    """Call a function once for each share, this thread taking the first one.

    Args:
        share: Called from several threads at once.
        num_tokens: Tokens of all heads and rows together, which tell how many shares pay.
    """
    num_shares = max(1, min(torch.get_num_threads(), num_tokens // _LEAST_TOKENS))
    others = [
        _pool(os.getpid(), num_shares - 1).submit(share, number, num_shares)
        for number in range(1, num_shares)
    ]
    share(0, num_shares)
    for other in others:
        other.result()


@functools.cache
def _pool(_pid: int, num_threads: int) -> ThreadPoolExecutor:
    """Return the threads; after a fork there are none, so every process has its own."""
    return ThreadPoolExecutor(num_threads, thread_name_prefix="memdecay-kernel")
