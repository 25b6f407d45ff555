"""How torch's threads wait for work on a CPU."""

from __future__ import annotations

import os

_SETTINGS = ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT")


def wait_asleep() -> None:
    """Let OpenMP's threads sleep while they wait, unless the user has said how they wait.

    By default they spin. A server has more threads than that, and each that spins keeps a core from
    those that have work: the attention kernels' own, the event loop's, another process's. OpenMP
    reads the setting when torch is imported, so call this before.
    """
    if not any(name in os.environ for name in _SETTINGS):
        os.environ["OMP_WAIT_POLICY"] = "PASSIVE"
