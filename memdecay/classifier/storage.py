"""Files that are there whole or not at all."""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from memdecay.classifier.errors import StorageError

_BLOCK_BYTES = 1 << 20


@contextmanager
def storage_errors(path: Path) -> Iterator[None]:
    """Turn an operating system's refusal to write into a `StorageError` that names the path.

    Raises:
        StorageError: The block raised an `OSError`.
    """
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        raise StorageError(
            f"{path} could not be written ({reason}); free some space or choose another place"
        ) from error


def check_writable(path: Path, *, is_folder: bool = False) -> None:
    """Find out before a long piece of work whether its result will have a place; create nothing.

    Args:
        path: The file that is to be written.
        is_folder: Whether it is a folder to write into instead.

    Raises:
        StorageError: A file stands where a folder must be or the reverse, or writing is forbidden.
    """
    existing = next(place for place in (path, *path.absolute().parents) if place.exists())
    needs_folder = is_folder or existing != path
    if needs_folder and not existing.is_dir():
        reason = f"{existing} is a file, expected a folder"
    elif not needs_folder and existing.is_dir():
        reason = "it is a folder, expected a file"
    elif not os.access(existing, os.W_OK):
        reason = f"{existing} may not be written"
    else:
        return
    raise StorageError(f"{path} could not be written ({reason}); choose another place")


def write_atomically(path: Path, write: Callable[[Path], None]) -> None:
    """Let ``write`` fill a temporary file beside ``path``, then put it in place in one step.

    Args:
        path: The file to create or replace; its folder is made where it is missing. A link stays a
            link. A device or pipe is written to directly: it can't be replaced.
        write: Called with the temporary file's path.

    Raises:
        StorageError: The file could not be written; what stood at ``path`` is untouched.
    """
    check_writable(path)
    with storage_errors(path):
        path = path.resolve()
        if path.exists() and not path.is_file():
            write(path)
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".tmp")
        os.close(handle)
        temporary = Path(name)
        try:
            write(temporary)
            with temporary.open("rb") as written:
                os.fsync(written.fileno())
            temporary.chmod(0o666 & ~_current_umask())
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)


def write_text_atomically(path: Path, text: str) -> None:
    """Write a UTF-8 text file whole or not at all.

    Raises:
        StorageError: The file could not be written; what stood at ``path`` is untouched.
    """
    write_atomically(path, lambda temporary: _write_text(temporary, text))


def file_sha256(path: Path) -> str:
    """Return the SHA-256 of a file's bytes as 64 hex digits."""
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        while block := stream.read(_BLOCK_BYTES):
            digest.update(block)
    return digest.hexdigest()


def _write_text(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")


def _current_umask() -> int:
    # mkstemp makes private files; a finished one gets the mode that any new file would have.
    umask = os.umask(0)
    os.umask(umask)
    return umask
