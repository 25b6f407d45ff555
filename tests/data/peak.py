"""How much memory reading takes."""

from __future__ import annotations

import tracemalloc
from collections.abc import Container, Iterable


def count_and_peak(items: Iterable[object]) -> tuple[int, int]:
    """Return how many items come and the most bytes of Python objects on the way."""
    tracemalloc.start()
    try:
        count = sum(1 for _ in items)
        return count, tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def held_after(items: Iterable[object], numbers: Container[int]) -> list[int]:
    """Return the bytes of Python objects held when items, counted from 0, have come."""
    tracemalloc.start()
    try:
        counted = enumerate(items)
        return [tracemalloc.get_traced_memory()[0] for number, _ in counted if number in numbers]
    finally:
        tracemalloc.stop()
