"""One process at a time in a folder."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from memdecay.classifier.storage import storage_errors

LOCK_NAME = ".lock"

logger = logging.getLogger(__name__)


@contextmanager
def only_process(folder: Path) -> Iterator[None]:
    """Make the folder and keep other processes (and threads) out of the block, waiting for them.

    The operating system frees a killed process's lock, so the file that stays behind means nothing.

    Args:
        folder: The folder that is worked on.

    Raises:
        StorageError: The folder can't be made or the lock not be taken.
    """
    with storage_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
        lock = FileLock(folder / LOCK_NAME)
        try:
            lock.acquire(timeout=0)
        except Timeout:
            logger.info("Another process is at work in %s; waiting for it to end", folder)
            lock.acquire()
    try:
        yield
    finally:
        lock.release()
