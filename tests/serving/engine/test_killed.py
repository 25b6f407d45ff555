"""A process that is killed, or has no room, while it writes sessions leaves whole ones."""

from __future__ import annotations

import os
import resource
import signal
import time
from collections.abc import Callable
from itertools import count
from pathlib import Path

import pytest
import torch

from memdecay.classifier.errors import StorageError
from memdecay.serving.engine.sessions.disk import SessionFolder

NAMES = tuple(letter * 32 for letter in "abc")


def write_for_ever(folder: SessionFolder) -> None:
    for number in count():
        name = NAMES[number % len(NAMES)]
        state = {"x": torch.full((20_000,), number), "y": torch.full((3,), number)}
        folder.write(name, {"name": name, "number": number, "text": "words " * 2000}, state)


def fork(work: Callable[[], None]) -> int:
    """Let a child process work; it ends with 0 where that does."""
    child = os.fork()
    if child:
        return child
    status = 1
    try:
        work()
        status = 0
    finally:
        os._exit(status)


def test_a_kill_during_a_write_leaves_whole_sessions(tmp_path: Path) -> None:
    seen: set[str] = set()
    for attempt in range(8):
        child = fork(lambda: write_for_ever(SessionFolder(tmp_path, "f")))
        time.sleep(0.15 + 0.013 * attempt)
        os.kill(child, signal.SIGKILL)
        assert os.WIFSIGNALED(os.waitpid(child, 0)[1])
        folder = SessionFolder(tmp_path, "f")
        found = {body["name"]: (stored, body) for stored, body in folder.scan()}
        # What was there once is replaced, never lost.
        assert set(found) >= seen
        seen = set(found)
        for stored, body in found.values():
            state = folder.read(stored)
            assert all(bool((part == body["number"]).all()) for part in state.values())
        assert len(list(tmp_path.iterdir())) == 2 * len(found)
        folder.close()
    assert seen == set(NAMES)


def test_a_disk_without_room_keeps_the_older_state(tmp_path: Path) -> None:
    """The system itself refuses the write, in its middle."""

    def write_too_much() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, resource.RLIM_INFINITY))
        folder = SessionFolder(tmp_path, "f")
        folder.write(NAMES[0], {"number": 1}, {"x": torch.ones(100)})
        with pytest.raises(StorageError, match="could not be written"):
            folder.write(NAMES[0], {"number": 2}, {"x": torch.ones(100_000)})
        with pytest.raises(StorageError, match="could not be written"):
            folder.write(NAMES[1], {"text": "words " * 100_000}, {"x": torch.ones(1)})

    assert os.waitpid(fork(write_too_much), 0)[1] == 0
    assert len(list(tmp_path.iterdir())) == 2
    folder = SessionFolder(tmp_path, "f")
    ((stored, body),) = folder.scan()
    assert body == {"number": 1}
    assert folder.read(stored)["x"].shape == (100,)
