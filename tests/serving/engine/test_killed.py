"""A process that is killed while it writes sessions leaves whole ones."""

from __future__ import annotations

import os
import signal
import time
from itertools import count
from pathlib import Path

import pytest
import torch

from memdecay.serving.engine.sessions.disk import SessionFolder

NAMES = ("a", "b", "c")


def write_for_ever(folder: SessionFolder) -> None:
    for number in count():
        name = NAMES[number % len(NAMES)]
        state = {"x": torch.full((20_000,), number), "y": torch.full((3,), number)}
        folder.write(name, {"name": name, "number": number, "text": "words " * 2000}, state)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork")
def test_a_kill_during_a_write_leaves_whole_sessions(tmp_path: Path) -> None:
    seen: set[str] = set()
    for attempt in range(8):
        child = os.fork()
        if not child:
            try:
                write_for_ever(SessionFolder(tmp_path, "f"))
            finally:
                os._exit(1)
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
    assert seen == set(NAMES)
