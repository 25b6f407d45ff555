"""Bytes of buffers over time."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class ByteAccount:
    """How many bytes are allocated and how many were at most.

    Attributes:
        allocated_bytes: Bytes allocated now.
        peak_bytes: Most bytes at one time.
    """

    allocated_bytes: int = 0
    peak_bytes: int = 0

    def replace(self, old_bytes: int, new_bytes: int) -> None:
        """Note that a buffer gave way to another; while one is copied both exist."""
        if new_bytes != old_bytes:
            self.peak_bytes = max(self.peak_bytes, self.allocated_bytes + new_bytes)
            self.allocated_bytes += new_bytes - old_bytes

    def settle(self, old_bytes: int, new_bytes: int) -> None:
        """Note that a buffer has given way to another, the copying left aside."""
        self.allocated_bytes += new_bytes - old_bytes
        self.peak_bytes = max(self.peak_bytes, self.allocated_bytes)
