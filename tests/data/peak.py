"""How much memory reading takes."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterable


def count_and_peak(items: Iterable[object]) -> tuple[int, int]:
    """Return how many items come and the most bytes of Python objects on the way."""
    tracemalloc.start()
    try:
        count = sum(1 for _ in items)
        return count, tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
