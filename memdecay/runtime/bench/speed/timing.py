"""Clocks: one that waits for the device, and one that tells the parts of a step apart."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch

Clock = Callable[[], float]
"""Gives seconds since some moment."""


def device_clock(device: torch.device) -> Clock:
    """Return a clock that first waits until the device has done what it was given."""
    if device.type != "cuda":
        return time.perf_counter

    def now() -> float:
        torch.cuda.synchronize(device)
        return time.perf_counter()

    return now


class PartTimers:
    """Time by part, where a part inside another counts for itself alone.

    Args:
        clock: Read when a part begins and ends, while `is_on`.
    """

    def __init__(self, clock: Clock) -> None:
        self.is_on = False
        self.seconds: dict[str, float] = {}
        self._clock = clock
        self._open: list[str] = []
        self._last_s = 0.0

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        """Give the block's time to a part, but for the parts inside it."""
        if not self.is_on:
            yield
            return
        self._settle()
        self._open.append(name)
        try:
            yield
        finally:
            self._settle()
            self._open.pop()

    def _settle(self) -> None:
        """Give the time since the last change to the innermost open part."""
        now_s = self._clock()
        if self._open:
            name = self._open[-1]
            self.seconds[name] = self.seconds.get(name, 0.0) + now_s - self._last_s
        self._last_s = now_s
