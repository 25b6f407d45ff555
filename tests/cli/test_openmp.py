"""A server's threads wait asleep, and that is settled before torch is there."""

import os
import subprocess
import sys

import pytest

PROGRAM = """
import builtins, os, sys
real = builtins.__import__
def watched(name, *args, **kwargs):
    if name == "torch":
        print("waits", os.environ.get("OMP_WAIT_POLICY"), flush=True)
        os._exit(0)
    return real(name, *args, **kwargs)
builtins.__import__ = watched
from memdecay.cli.app import main
main([sys.argv[1], "--help"])
"""


@pytest.mark.parametrize(
    ("command", "own", "expected"),
    [
        ("serve", {}, "PASSIVE"),
        ("serve", {"OMP_WAIT_POLICY": "ACTIVE"}, "ACTIVE"),
        ("serve", {"GOMP_SPINCOUNT": "10"}, "None"),
        ("train", {}, "None"),
    ],
)
def test_what_torch_finds_when_it_is_imported(
    command: str, own: dict[str, str], expected: str
) -> None:
    plain = {k: v for k, v in os.environ.items() if k not in ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT")}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, command],
        env=plain | own,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.splitlines()[-1] == f"waits {expected}"
